// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersionSaysTheCommitAndGo(t *testing.T) {
	t.Parallel()
	const rest = `, go1\.\S+, \w+/\w+\)$`
	require.Regexp(t, `^signalbox v0\.1\.0 \(commit 4f2e`+rest, versionOf(new(debug.BuildInfo), "v0.1.0", "4f2e"), "a release")
	require.Regexp(t, `^signalbox v0\.1\.0 \(commit unknown`+rest, versionOf(&debug.BuildInfo{Main: debug.Module{Version: "v0.1.0"}}, "", ""), "go install of a tag")
	checkout := []debug.BuildSetting{{Key: "vcs.revision", Value: "4f2e"}, {Key: "vcs.modified", Value: "true"}}
	require.Regexp(t, `^signalbox \(devel\) \(commit 4f2e, changed`+rest, versionOf(&debug.BuildInfo{Settings: checkout}, "", ""), "a build in a checkout")
}
