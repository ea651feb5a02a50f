// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"maps"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	clientwire "github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/reentrant"
)

// numberFields returns the fields of a struct, and of structs in it, that are numbers, by their path.
func numberFields(of reflect.Type, path []int, name string) map[string][]int {
	all := make(map[string][]int)
	for i := range of.NumField() {
		f := of.Field(i)
		at := append(slices.Clip(path), i)
		switch {
		case !f.IsExported():
		case f.Type.Kind() == reflect.Struct && f.Type != reflect.TypeFor[time.Time]():
			maps.Copy(all, numberFields(f.Type, at, name+f.Name+"."))
		case f.Type.ConvertibleTo(reflect.TypeFor[int64]()) && f.Type.Kind() != reflect.Bool:
			all[name+f.Name] = at
		}
	}
	return all
}

// Each number in the options of a client is refused by DialWith, or a session with it works: nothing panics, hangs, or asks without pause.
func TestEveryNumberOfTheClientHasBounds(t *testing.T) {
	t.Parallel()
	for name, index := range numberFields(reflect.TypeFor[rueidis.ClientOption](), nil, "") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, v := range []int64{math.MinInt64, -1, 1, int64(time.Minute), int64(year), math.MaxInt64} {
				set := func(o *rueidis.ClientOption) { reflect.ValueOf(o).Elem().FieldByIndex(index).SetInt(v) }
				var o rueidis.ClientOption
				set(&o)
				if err := clientwire.CheckNumbers(&o); err != nil {
					require.ErrorIs(t, err, signalbox.ErrBadOption)
					require.ErrorContains(t, err, name)
					continue
				}
				if name == "SelectDB" {
					continue // a server says which it has
				}
				bubble(t, func(f *fixture) {
					client, _ := f.client(f.T, set)
					s := signalbox.NewSession(client, quiet)
					defer client.Close()
					ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
					defer cancel()
					lease, err := reentrant.New(s, "a").Lock(ctx)
					require.NoError(f, err, v)
					before := f.commands.Load()
					time.Sleep(boundSpan)
					require.Less(f, f.commands.Load()-before, mostScripts, v)
					require.NoError(f, lease.Unlock(), v)
					require.NoError(f, s.Close(ctx))
				})
			}
		})
	}
}
