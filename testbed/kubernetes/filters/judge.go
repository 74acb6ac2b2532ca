package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	storage "k8s.io/kubernetes/pkg/apis/storage/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// Case is a cluster and a pod.
type Case struct {
	Objects []json.RawMessage `json:"objects"`
	Pod     json.RawMessage   `json:"pod"`
}

// Answer says where the pod may run and what refuses it elsewhere.
type Answer struct {
	Feasible []string          `json:"feasible"`
	Refused  map[string]string `json:"refused,omitempty"`
	Error    string            `json:"error,omitempty"`
}

// filters are the plugins that say where a pod may run, with those that no framework goes without.
var filters = []string{
	names.PrioritySort, names.DefaultBinder,
	names.NodeUnschedulable, names.NodeName, names.TaintToleration, names.NodeAffinity,
	names.NodePorts, names.NodeResourcesFit, names.VolumeRestrictions, names.NodeVolumeLimits,
	names.VolumeBinding, names.VolumeZone, names.PodTopologySpread, names.InterPodAffinity,
}

// snapshot is the one that plugins see, which changes from case to case.
type snapshot struct{ *cache.Snapshot }

type judge struct {
	ctx       context.Context
	scheme    *runtime.Scheme
	decoder   runtime.Decoder
	store     *store
	snapshot  *snapshot
	framework framework.Framework
}

func newJudge(ctx context.Context) (*judge, error) {
	metrics.Register()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, storage.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	store := newStore(&v1.Pod{}, &v1.Node{}, &v1.Namespace{}, &v1.PersistentVolume{},
		&v1.PersistentVolumeClaim{}, &storagev1.StorageClass{}, &storagev1.CSINode{},
		&storagev1.CSIDriver{}, &storagev1.CSIStorageCapacity{}, &storagev1.VolumeAttachment{})
	defaults, err := latest.Default()
	if err != nil {
		return nil, err
	}
	profile := defaults.Profiles[0]
	profile.Plugins.MultiPoint.Enabled = slices.DeleteFunc(profile.Plugins.MultiPoint.Enabled,
		func(plugin config.Plugin) bool { return !slices.Contains(filters, plugin.Name) })
	current := &snapshot{cache.NewEmptySnapshot()}
	csi := nodevolumelimits.NewCSIManager(store.factory.Storage().V1().CSINodes().Lister())
	framework, err := frameworkruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), &profile,
		frameworkruntime.WithInformerFactory(store.factory),
		frameworkruntime.WithSharedCSIManager(csi),
		frameworkruntime.WithSnapshotSharedLister(current))
	if err != nil {
		return nil, err
	}
	decoder := serializer.NewCodecFactory(scheme).UniversalDeserializer()
	return &judge{ctx, scheme, decoder, store, current, framework}, nil
}

// read decodes an object and fills in what the API server would.
func (j *judge) read(ctx context.Context, text []byte) (runtime.Object, error) {
	object, _, err := j.decoder.Decode(text, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("%w in %s", err, text)
	}
	if pod, ok := object.(*v1.Pod); ok {
		return pod, admit(ctx, j.scheme, pod)
	}
	j.scheme.Default(object)
	return object, nil
}

// enter brings the cluster of a case into the informers and the scheduler's cache.
func (j *judge) enter(ctx context.Context, objects []json.RawMessage) error {
	if err := j.store.clear(); err != nil {
		return err
	}
	logger := klog.FromContext(ctx)
	known := cache.New(ctx, nil, false, false)
	for _, text := range objects {
		object, err := j.read(ctx, text)
		if err != nil {
			return err
		}
		switch object := object.(type) {
		case *v1.Node:
			known.AddNode(logger, object)
		case *v1.Pod:
			// The scheduler's watch asks for pods that have not ended.
			if object.Status.Phase == v1.PodSucceeded || object.Status.Phase == v1.PodFailed {
				continue
			}
			if object.Spec.NodeName != "" {
				if err := known.AddPod(logger, object); err != nil {
					return err
				}
			}
		}
		if err := j.store.add(object); err != nil {
			return err
		}
	}
	j.snapshot.Snapshot = cache.NewEmptySnapshot()
	return known.UpdateSnapshot(logger, j.snapshot.Snapshot)
}

func (j *judge) answer(line []byte) (*Answer, error) {
	ctx, cancel := context.WithCancel(j.ctx)
	defer cancel()
	var given Case
	if err := json.Unmarshal(line, &given); err != nil {
		return nil, err
	}
	if err := j.enter(ctx, given.Objects); err != nil {
		return nil, err
	}
	object, err := j.read(ctx, given.Pod)
	if err != nil {
		return nil, err
	}
	pod, ok := object.(*v1.Pod)
	if !ok {
		return nil, fmt.Errorf("the pod is a %T", object)
	}
	return j.filter(ctx, pod)
}

// filter does what a scheduling cycle does up to the feasible nodes.
func (j *judge) filter(ctx context.Context, pod *v1.Pod) (*Answer, error) {
	answer := &Answer{Feasible: []string{}, Refused: map[string]string{}}
	nodes, err := j.snapshot.NodeInfos().List()
	if err != nil {
		return nil, err
	}
	state := framework.NewCycleState()
	some, status, _ := j.framework.RunPreFilterPlugins(ctx, state, pod)
	if !status.IsSuccess() {
		answer.Refused["*"] = why(status)
		return answer, nil
	}
	for _, node := range nodes {
		name := node.Node().Name
		if !some.AllNodes() && !some.NodeNames.Has(name) {
			answer.Refused[name] = "PreFilter"
			continue
		}
		if status := j.framework.RunFilterPlugins(ctx, state, pod, node); status.IsSuccess() {
			answer.Feasible = append(answer.Feasible, name)
		} else {
			answer.Refused[name] = why(status)
		}
	}
	slices.Sort(answer.Feasible)
	return answer, nil
}

func why(status *fwk.Status) string {
	return status.Plugin() + ": " + strings.Join(status.Reasons(), ", ")
}
