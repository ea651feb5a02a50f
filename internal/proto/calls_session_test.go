// SPDX-License-Identifier: Apache-2.0

package proto_test

import (
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/scripts"
)

var sessionCalls = []callRow{{scripts.SessionReadString, &proto.SessionReadString{}}}
