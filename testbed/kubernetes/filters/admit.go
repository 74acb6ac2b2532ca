package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	podregistry "k8s.io/kubernetes/pkg/registry/core/pod"
)

// admit makes of a manifest what the API server would store of it. The status stays, for only
// the manifest of a new pod has none. A pod that the API server would refuse is an error.
func admit(ctx context.Context, scheme *runtime.Scheme, pod *v1.Pod) error {
	scheme.Default(pod)
	if pod.UID == "" {
		pod.UID = types.UID(pod.Namespace + "/" + pod.Name)
	}
	status := pod.Status
	ctx = genericapirequest.WithNamespace(ctx, pod.Namespace)
	internal := &core.Pod{}
	if err := corev1.Convert_v1_Pod_To_core_Pod(pod, internal, nil); err != nil {
		return err
	}
	podregistry.Strategy.PrepareForCreate(ctx, internal)
	if errors := podregistry.Strategy.Validate(ctx, internal); len(errors) > 0 {
		return fmt.Errorf("pod %s: %w", pod.Name, errors.ToAggregate())
	}
	if err := corev1.Convert_core_Pod_To_v1_Pod(internal, pod, nil); err != nil {
		return err
	}
	pod.Status = status
	return nil
}
