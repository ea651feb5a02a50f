// SPDX-License-Identifier: Apache-2.0

package surface_test

import (
	"context"
	"reflect"
)

// call is a method of a value, as it was called.
type call struct {
	method string
	takes  bool // a context
	err    error
	fails  bool // the call can fail: its last result, or the last element of its sequence, is an error
	panics any  // the value of the panic, or nil
}

// invoke calls every exported method of v, with ctx for contexts and zero values for the rest. It
// goes through sequences that methods return.
func invoke(ctx context.Context, v any) (calls []call) {
	value := reflect.ValueOf(v)
	for i := range value.NumMethod() {
		m := value.Method(i)
		c := call{method: value.Type().String() + "." + value.Type().Method(i).Name}
		args := make([]reflect.Value, m.Type().NumIn())
		for n := range args {
			in := m.Type().In(n)
			args[n] = reflect.Zero(in)
			if in == reflect.TypeFor[context.Context]() {
				c.takes = true
				if ctx != nil {
					args[n] = reflect.ValueOf(ctx)
				}
			}
		}
		c.run(m, args)
		calls = append(calls, c)
	}
	return calls
}

func (c *call) run(m reflect.Value, args []reflect.Value) {
	defer func() { c.panics = recover() }()
	var results []reflect.Value
	if m.Type().IsVariadic() {
		results = m.CallSlice(args)
	} else {
		results = m.Call(args)
	}
	if len(results) == 0 {
		return
	}
	last := results[len(results)-1]
	if last.Type().CanSeq2() && last.Kind() == reflect.Func {
		for _, err := range last.Seq2() {
			last = err
		}
	}
	if last.Type() == reflect.TypeFor[error]() {
		c.fails = true
		c.err, _ = reflect.TypeAssert[error](last)
	}
}
