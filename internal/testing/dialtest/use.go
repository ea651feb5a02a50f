// SPDX-License-Identifier: Apache-2.0

package dialtest

import (
	"context"
	"crypto/tls"
	"reflect"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
)

// Name is the name of the lock that Use acquires.
const Name = "vault"

// Use makes calls of a session for a while, and closes it: goroutines acquire a lock and wait for it. What becomes of the calls does not
// matter.
func Use(s *signalbox.Session) {
	ctx, cancel := context.WithTimeout(context.Background(), 400*time.Millisecond)
	defer cancel()
	var callers sync.WaitGroup
	for range 3 {
		callers.Go(func() {
			for ctx.Err() == nil {
				if lease, err := fair.New(s, Name).Lock(ctx); err == nil {
					_ = lease.Unlock()
				}
			}
		})
	}
	callers.Wait()
	_ = s.Close(ctx)
}

// SetUnusual sets a value, and all that is in it, to what no program has by accident. Interfaces stay nil.
func SetUnusual(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("unusual")
	case reflect.Int, reflect.Int64:
		v.SetInt(2)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		SetUnusual(v.Index(0))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		if config, isTLS := v.Interface().(*tls.Config); isTLS {
			config.ServerName = "unusual"
		}
	case reflect.Func: // it returns zero values
		v.Set(reflect.MakeFunc(v.Type(), func([]reflect.Value) (results []reflect.Value) {
			for i := range v.Type().NumOut() {
				results = append(results, reflect.Zero(v.Type().Out(i)))
			}
			return results
		}))
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				SetUnusual(v.Field(i))
			}
		}
	default:
	}
}
