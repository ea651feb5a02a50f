// SPDX-License-Identifier: Apache-2.0

package locktest

import "github.com/signalbox-go/signalbox/internal/testing/redistest"

// establish gives a server the epoch of one that has had its data for a day.
const establish = `
local life = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local since = string.format('%016.0f', redis.call('TIME')[1] * 1000000 - 86400000000)
return redis.call('SET', KEYS[1], 'sb1e' .. since .. since .. life, 'PX', 604800000)`

// Establish makes a server vote for locks of package redlock at once. A new server votes after one lease.
func Establish(server *redistest.Server) error {
	_, err := server.Do("EVAL", establish, 1, "sb:epoch")
	return err
}
