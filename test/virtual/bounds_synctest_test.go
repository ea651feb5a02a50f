// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"cmp"
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	clientwire "github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/reentrant"
)

// boundRow says which values an argument of the API takes, and how a test passes one.
type boundRow struct {
	least, most int64               // a value beyond these is an error
	refuses     func(v int64) error // what a value is refused with; nil: ErrBadOption beyond least and most
	// use passes a value to a call and uses what it returns. It returns the first error of the library.
	use func(b *boundTrial, v int64) error
	// An option has these in the place of use. Each kind that has the option uses it.
	option func(v int64) signalbox.LockOption
	kinds  []string
	leasts map[string]int64 // the least value of kinds with another one
}

// boundTrial is a bubble in which values of an argument are tried, one after the other.
type boundTrial struct {
	*redlockServers

	s, other []*signalbox.Session // the session under test, and that of another process
	name     string               // a name of its own for each value
}

const (
	year = 365 * 24 * time.Hour
	// boundSpan is for how long the use of a value is watched.
	boundSpan = 5 * time.Second
	// mostScripts is how many scripts a server may be sent in that time: leases of 100 ms are renewed 30 times a second.
	mostScripts = 60 * int64(boundSpan/time.Second)
	// greatestLife is how long a key may live, unless an option asks for longer: outcomes and rounds have a day by default. A group without
	// members is kept for a week.
	greatestLife, groupLife = 24*time.Hour + time.Minute, 7 * 24 * time.Hour
	// longestKeep is the longest time for which an option keeps a key.
	longestKeep = 30 * 24 * time.Hour
)

// extremes are what each argument is tried with, besides what is at its bounds.
var extremes = []int64{
	math.MinInt64, -1, 0, 1, 1500, int64(time.Millisecond) + 1, int64(time.Second) + 1, math.MaxUint32 + 1, int64(year), 1 << 53, math.MaxInt64 - 1, math.MaxInt64,
}

// values returns what to try an argument with.
func (r *boundRow) values(least int64) []int64 {
	all := slices.Clone(extremes)
	if r.least > math.MinInt64 {
		all = append(all, least-1, least)
	}
	if r.most < math.MaxInt64 {
		all = append(all, r.most, r.most+1)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Each number, duration and time of the API is tried at its bounds, beyond them, and at the ends of its type. It is used as its doc says, or refused.
// Nothing panics, every call returns, no key lives for longer than it should, no server is asked without pause, and another process
// uses the same name afterwards.
func TestEveryNumberOfTheAPIHasBounds(t *testing.T) {
	t.Parallel()
	for name, row := range boundRows() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if row.use != nil {
				row.try(t, 1, row.least, row.use)
				return
			}
			for _, kind := range row.kinds {
				t.Run(kind, func(t *testing.T) {
					t.Parallel()
					least, special := row.leasts[kind]
					if !special {
						least = row.least
					}
					row.try(t, serversOf(kind), least, func(b *boundTrial, v int64) error {
						use := boundUses[kind]
						err := use(b, b.s, row.option(v))
						require.NoError(b, use(b, b.other), "another process, after %d", v)
						return err
					})
				})
			}
		})
	}
}

func serversOf(kind string) int {
	if kind == "redlock" {
		return 3
	}
	return 1
}

// try tries all values in a bubble.
func (r *boundRow) try(t *testing.T, servers int, least int64, use func(b *boundTrial, v int64) error) {
	t.Helper()
	bubbleOf(t, servers, func(rs *redlockServers) {
		b := newBoundTrial(rs)
		for _, v := range r.values(least) {
			b.name = fmt.Sprintf("%d", v)
			want := r.refusal(least, v)
			before := b.keys()
			err := use(b, v)
			if want == nil {
				require.NoError(b, err, v)
			} else {
				require.ErrorIs(b, err, want, v)
			}
			for key, life := range b.keys() {
				require.Positive(b, life, "%d: the key %q never ends", v, key)
				longest := max(greatestLife, time.Duration(min(v, int64(longestKeep)))+time.Minute, before[key])
				if strings.Contains(key, ":shards") {
					longest = groupLife
				}
				require.LessOrEqual(b, life, longest, "%d: %q", v, key)
			}
		}
	})
}

// refusal returns what v is to be refused with, or nil.
func (r *boundRow) refusal(least, v int64) error {
	switch {
	case r.refuses != nil:
		return r.refuses(v)
	case v < least || v > r.most:
		return signalbox.ErrBadOption
	default:
		return nil
	}
}

func newBoundTrial(rs *redlockServers) *boundTrial {
	for _, f := range rs.servers {
		long := time.Now().Add(-48 * time.Hour).UnixMicro() // longer than any lease
		require.NoError(rs, f.redis.Set("sb:epoch", fmt.Sprintf("sb1e%016d%016d", long, long)))
		f.redis.SetTTL("sb:epoch", groupLife)
		f.redis.Server().SetPreHook(func(c *server.Peer, command string, args ...string) bool {
			switch {
			case command == "WAIT" && c.ClientName != runName: // as with as many replicas
				n, err := strconv.Atoi(args[0])
				wait, failed := strconv.Atoi(args[1])
				if err != nil || failed != nil || wait <= 0 || wait > int(time.Minute.Milliseconds()) {
					c.WriteError("ERR " + strings.Join(args, " "))
					return true
				}
				c.WriteInt(n)
				return true
			case strings.HasPrefix(command, "EVAL"):
				f.redis.SetTime(time.Now())
				f.scripts.Add(1)
			}
			return false
		})
	}
	b := &boundTrial{redlockServers: rs}
	b.s, _ = rs.process(quiet)
	b.other, _ = rs.process(quiet)
	return b
}

// keys returns how long each key of the servers lives; 0 for ever.
func (b *boundTrial) keys() map[string]time.Duration {
	all := make(map[string]time.Duration)
	for i, f := range b.servers {
		f.redis.SetTime(time.Now())
		for _, key := range f.redis.Keys() {
			if key != "sb:epoch" {
				all[strconv.Itoa(i)+" "+key] = f.redis.TTL(key)
			}
		}
	}
	return all
}

// watch lets time pass, and requires that no server is asked without pause.
func (b *boundTrial) watch() {
	b.Helper()
	before := make([]int64, len(b.servers))
	for i, f := range b.servers {
		before[i] = f.scripts.Load()
	}
	time.Sleep(boundSpan)
	for i, f := range b.servers {
		require.Less(b, f.scripts.Load()-before[i], mostScripts, "scripts in %v, with %s", boundSpan, b.name)
	}
}

// returnsWithin returns the error of a call, which must return in time.
func (b *boundTrial) returnsWithin(limit time.Duration, call func() error) (err error) {
	b.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = call()
	}()
	select {
	case <-done:
		return err
	case <-time.After(limit):
		b.Fatalf("%s: the call has not returned after %v", b.name, limit)
		return nil
	}
}

// limited returns a context that ends after d.
func (b *boundTrial) limited(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	b.Cleanup(cancel)
	return ctx
}

// A context whose deadline is as far away as a time can be is one that does not end.
func TestEveryCallBearsADeadlineInCenturies(t *testing.T) {
	t.Parallel()
	for _, c := range calls() {
		if c.class == leaves {
			continue // Close waits for holders until then
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, far := range []time.Time{time.Now().Add(math.MaxInt64), time.Unix(1<<40, 0)} {
				ended, _ := c.play(t, healthy, func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithDeadline(ctx, far) })
				is, _ := c.read(t, healthyCell(c.class), "")
				require.Equal(t, is, ended, far)
			}
		})
	}
}

// healthyCell returns how calls of a class end on healthy servers if their context does not end.
func healthyCell(class callClass) string {
	return endings[slices.IndexFunc(endings, func(e expectedEnds) bool { return e.class == class && e.fault == healthy })].never
}

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
				bubbleOfUsers(t, func(f *fixture) {
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

// boundsElsewhere are the arguments of modules of their own, and the test that tries each with what is too small and too large. Options
// of clients are not in the list of the API: internal/wire has a test of those.
var boundsElsewhere = map[string]string{
	"inspect.Entry.IsHeld receiver":   "inspect TestHeldEntryHasHoldersOrARound",
	"inspect.Entry.Summary receiver":  "inspect TestSummaryOfAnEntry",
	"inspecthttp.New options":         "inspect/inspecthttp TestListEndsWithTheSession",
	"gocron.NewLocker period":         "contrib/gocron TestPeriodsHaveBounds",
	"gocron.Locker.PeriodOf period":   "contrib/gocron TestPeriodsHaveBounds",
	"gocron.Locker.WithNow now":       "contrib/gocron TestPeriodsHaveBounds",
	"otel.WithHoldBuckets boundaries": "contrib/otel TestBoundariesThatDoNotRiseAreRefused",
	"otel.WithWaitBuckets boundaries": "contrib/otel TestBoundariesThatDoNotRiseAreRefused",
	"signalboxtest.Permits n":         "signalboxtest TestNumbersOfTheKitHaveBounds",
	"signalboxtest.Permits capacity":  "signalboxtest TestNumbersOfTheKitHaveBounds",
	"signalboxtest.Kit.Advance d":     "signalboxtest TestNumbersOfTheKitHaveBounds",
}

// apiLine matches a line of the list of the API: package, sort and the rest.
var apiLine = regexp.MustCompile(`^signalbox(?:/(?:\w+/)*(\w+))?: (\w+) (.*)$`)

// api is what the list of the API says of calls and of numbers.
type api struct {
	calls     []string        // the functions and methods, by package
	numeric   map[string]bool // the types that are numbers or times, or structs with an exported field of one
	arguments []string        // the arguments of functions and methods, their receivers included, that are of such a type
}

// readAPI reads the list of the API, the types first.
func readAPI(t *testing.T) *api {
	t.Helper()
	text, err := os.ReadFile("../surface/testdata/api.txt")
	require.NoError(t, err)
	a := &api{numeric: make(map[string]bool)}
	for name := range strings.FieldsSeq("int int8 int16 int32 int64 uint uint8 uint16 uint32 uint64 float32 float64 time.Duration time.Time") {
		a.numeric[name] = true
	}
	for _, want := range [][]string{{"type"}, {"field"}, {"func", "method"}} {
		for line := range strings.Lines(string(text)) {
			parts := apiLine.FindStringSubmatch(strings.TrimSpace(line))
			require.Len(t, parts, 4, line)
			if slices.Contains(want, parts[2]) {
				a.read(t, cmp.Or(parts[1], "signalbox"), parts[2], parts[3])
			}
		}
	}
	return a
}

// read reads the rest of a line.
func (a *api) read(t *testing.T, pkg, sort, rest string) {
	t.Helper()
	switch sort {
	case "type": // State uint8
		name, of, _ := strings.Cut(rest, " ")
		a.numeric[pkg+"."+name] = a.numeric[of]
	case "field": // (View) Count int
		owner, field, _ := strings.Cut(strings.TrimPrefix(rest, "("), ") ")
		_, of, _ := strings.Cut(field, " ")
		if kind, err := parser.ParseExpr(of); err == nil && a.isNumeric(pkg, kind) {
			a.numeric[pkg+"."+owner] = true
		}
	default:
		file, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc "+rest, parser.SkipObjectResolution)
		require.NoError(t, err, rest)
		f := file.Decls[0].(*ast.FuncDecl) //nolint:forcetypeassert // it begins with func
		name := pkg + "." + f.Name.Name
		if f.Recv != nil {
			of := f.Recv.List[0].Type
			name = pkg + "." + receiver(of) + "." + f.Name.Name
			if a.isNumeric(pkg, of) {
				a.arguments = append(a.arguments, name+" receiver")
			}
		}
		a.calls = append(a.calls, name)
		for _, field := range f.Type.Params.List {
			for _, argument := range field.Names {
				if a.isNumeric(pkg, field.Type) {
					a.arguments = append(a.arguments, name+" "+argument.Name)
				}
			}
		}
	}
}

func receiver(of ast.Expr) string {
	if pointer, isPointer := of.(*ast.StarExpr); isPointer {
		of = pointer.X
	}
	return of.(*ast.Ident).Name //nolint:forcetypeassert // the types of the library have no parameters
}

// isNumeric reports whether an argument of the type brings numbers along.
func (a *api) isNumeric(pkg string, of ast.Expr) bool {
	switch of := of.(type) {
	case *ast.Ident:
		return a.numeric[of.Name] || a.numeric[pkg+"."+of.Name]
	case *ast.SelectorExpr:
		return a.numeric[of.X.(*ast.Ident).Name+"."+of.Sel.Name] //nolint:forcetypeassert // a package
	case *ast.StarExpr:
		return a.isNumeric(pkg, of.X)
	case *ast.Ellipsis:
		return a.isNumeric(pkg, of.Elt)
	case *ast.ArrayType:
		return a.isNumeric(pkg, of.Elt)
	case *ast.FuncType: // what it returns comes from the caller
		return of.Results != nil && slices.ContainsFunc(of.Results.List, func(f *ast.Field) bool { return a.isNumeric(pkg, f.Type) })
	default:
		return false
	}
}

// An argument that is a number, a duration or a time needs a row that says what is too small and too large.
func TestEveryNumberOfTheAPIHasARow(t *testing.T) {
	t.Parallel()
	listed := make(map[string]bool)
	for name := range boundRows() {
		listed[name] = true
	}
	for name, by := range boundsElsewhere {
		listed[name] = true
		folder, test, _ := strings.Cut(by, " ")
		requireTest(t, folder, test)
	}
	for _, name := range readAPI(t).arguments {
		if !listed[name] {
			t.Errorf("%s: no row says what is too small and too large", name)
		}
		delete(listed, name)
	}
	require.Empty(t, listed, "there are no such arguments")
}

// requireTest requires that a folder has a test.
func requireTest(t *testing.T, folder, test string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", folder, "*_test.go"))
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(files, func(path string) bool {
		text, err := os.ReadFile(path)
		return err == nil && strings.Contains(string(text), "func "+test+"(t *testing.T)")
	}), "%s has no %s", folder, test)
}
