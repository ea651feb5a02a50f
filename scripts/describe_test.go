// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

func (p *place) describe() []any {
	p.Helper()
	return p.run(scripts.HolderDescribe).([]any)
}

func TestAHolderOfAnyKindIsDescribed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ value, kind, label string }{
		"Unmarked":     {heldBy(ours, noon, ""), "r", label},
		"Marked":       {heldBy(ours, noon, they), "r", label},
		"WithoutLabel": {"sb1r" + digits(noon) + ours + unmarked, "r", ""},
		"LongestLabel": {"sb1r" + digits(noon) + ours + unmarked + strings.Repeat("x", 64), "r", strings.Repeat("x", 64)},
		"AnotherKind":  {"sb1x" + digits(noon) + ours + they + label, "x", label},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.set(c.value, time.Hour)
			unchanged := p.untouched()
			reply := p.describe()
			unchanged()
			ends := p.server.MustDo(t, "PEXPIRETIME", p.key)
			require.Equal(t, []any{int64(1), c.kind, digits(noon), ours, c.label, ends}, reply)
		})
	}
}

func TestAHolderWhoseKeyHasNoEndIsTold(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.server.MustDo(t, "SET", p.key, heldBy(ours, noon, ""))
	require.Equal(t, int64(-1), p.describe()[5])
}

func TestNobodyIsDescribedWhereNobodyHolds(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	require.Equal(t, []any{int64(0)}, p.describe())
	p.set(released(noon), time.Hour)
	require.Equal(t, []any{int64(0)}, p.describe())
}

func TestAKeyThatIsNoLocksIsNotDescribed(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"Foreign": "hello", "Empty": "", "OtherLayout": "sb2r" + heldBy(ours, noon, "")[4:], "ReleasedAndMore": "sb1-" + heldBy(ours, noon, "")[4:],
		"CutShort": "sb1r" + digits(noon) + ours, "TooLong": "sb1r" + digits(noon) + ours + unmarked + strings.Repeat("x", 65),
		"Long": strings.Repeat("x", 100), "ReleasedCutShort": released(noon)[:19],
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.set(value, time.Hour)
			require.Equal(t, []any{int64(-1)}, p.describe())
		})
	}
}
