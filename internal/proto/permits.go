// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"strconv"

	"github.com/signalbox-go/signalbox/scripts"
)

const (
	// WeightSize is how many digits say how many permits a hold has.
	WeightSize = 10
	// maxWeight is the greatest number that fits into the server's account of a hold.
	maxWeight = 1<<31 - 1
)

//nolint:gochecknoglobals // a constant table
var nativeSemaphore = SemaphoreTable{
	Table: Table{
		RegistryName: "semaphore",
		NamesOf:      Set.ForSemaphore,
		Keys:         nativeKeys,
		Renew:        scripts.HoldsRenew,
		Queue: &QueueScripts{
			Enter: scripts.SemaphoreEnter, Poll: scripts.SemaphorePoll, Leave: scripts.SemaphoreLeave, Drop: scripts.HoldsDrop,
			Yield: scripts.SemaphoreYield, Labelled: true,
		},
	},
	Split:         scripts.SemaphoreSplit,
	Resize:        scripts.SemaphoreResize,
	Available:     scripts.SemaphoreAvailable,
	List:          scripts.HoldsList,
	AvailableKeys: 1,
	MaxPermits:    maxWeight,
	TotalKnown:    true,
	ParseHold:     nativePermits,
}

// nativePermits reads a hold, its weight, and the label of its session.
func nativePermits(_, name string) (permits int, label, owner string) {
	if len(name) < HoldSize+WeightSize {
		return 0, name, "" // none of ours
	}
	permits, _ = strconv.Atoi(name[HoldSize : HoldSize+WeightSize]) // 0 if it is not one of ours
	return permits, name[HoldSize+WeightSize:], name[:SessionSize]
}
