package main

import (
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// informer holds the objects of one kind. It tells its handlers at once, in the caller's
// goroutine, so that a case is complete when the last object is in. Methods that nobody calls
// here are those of the nil interface.
type informer struct {
	cache.SharedIndexInformer
	indexer  cache.Indexer
	handlers []cache.ResourceEventHandler
}

func newInformer() *informer {
	return &informer{indexer: cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})}
}

func (i *informer) GetIndexer() cache.Indexer { return i.indexer }

func (i *informer) GetStore() cache.Store { return i.indexer }

func (i *informer) HasSynced() bool { return true }

func (i *informer) AddIndexers(indexers cache.Indexers) error { return i.indexer.AddIndexers(indexers) }

func (i *informer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.handlers = append(i.handlers, handler)
	return nil, nil
}

func (i *informer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

func (i *informer) add(object runtime.Object) error {
	if err := i.indexer.Add(object); err != nil {
		return err
	}
	for _, handler := range i.handlers {
		handler.OnAdd(object, false)
	}
	return nil
}

func (i *informer) clear() error {
	for _, object := range i.indexer.List() {
		if err := i.indexer.Delete(object); err != nil {
			return err
		}
		for _, handler := range i.handlers {
			handler.OnDelete(object)
		}
	}
	return nil
}

// store is what a scheduler would have learned from its watches.
type store struct {
	factory   informers.SharedInformerFactory
	informers map[reflect.Type]*informer
}

func newStore(kinds ...runtime.Object) *store {
	s := &store{informers.NewSharedInformerFactory(nil, 0), map[reflect.Type]*informer{}}
	for _, kind := range kinds {
		own := newInformer()
		s.informers[reflect.TypeOf(kind)] = own
		s.factory.InformerFor(kind, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return own })
	}
	return s
}

// add enters an object; kinds that no plugin looks at are left out.
func (s *store) add(object runtime.Object) error {
	if informer, ok := s.informers[reflect.TypeOf(object)]; ok {
		return informer.add(object)
	}
	return nil
}

func (s *store) clear() error {
	for _, informer := range s.informers {
		if err := informer.clear(); err != nil {
			return err
		}
	}
	return nil
}
