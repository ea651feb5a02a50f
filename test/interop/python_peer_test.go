// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// runPython becomes the Python program: one process, so that to kill the child is to kill Python.
func runPython(io.Reader, io.Writer) {
	words := append([]string{os.Getenv(programEnv)}, strings.Fields(os.Getenv(argumentsEnv))...)
	err := syscall.Exec(words[0], words, os.Environ())
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// findPython returns the first Python that has redis-py, or "". Debian has it for its own Python.
var findPython = sync.OnceValue(func() string {
	for _, name := range []string{"/usr/bin/python3", "python3"} {
		path, err := exec.LookPath(name)
		if err == nil && exec.Command(path, "-c", "import redis").Run() == nil {
			return path
		}
	}
	return ""
})

// python returns a Python with redis-py, or skips the test.
func python(tb testing.TB) string {
	tb.Helper()
	path := findPython()
	if path == "" && os.Getenv("SIGNALBOX_INTEROP") == "required" {
		tb.Fatal("there is no redis-py: .ci/ensure-python installs python3-redis")
	}
	if path == "" {
		tb.Skip("there is no redis-py: .ci/ensure-python installs python3-redis")
	}
	return path
}

// pythonFolder returns the folder of the Python client.
func pythonFolder(tb testing.TB) string {
	tb.Helper()
	folder, err := filepath.Abs("python")
	require.NoError(tb, err)
	return folder
}

// scriptFolder writes the composed scripts, as the Python client loads them.
func scriptFolder(tb testing.TB) string {
	tb.Helper()
	folder := tb.TempDir()
	all, err := scripts.All()
	require.NoError(tb, err)
	for _, script := range all {
		if script.Version == 1 { // those that the page names
			file := filepath.Join(folder, script.Name+".lua")
			require.NoError(tb, os.MkdirAll(filepath.Dir(file), 0o700))
			require.NoError(tb, os.WriteFile(file, []byte(script.Source), 0o600))
		}
	}
	return folder
}

// startPython starts a Python process of a server, or of a proxy, which does what verb says; see peer.py.
func startPython(tb testing.TB, addr, folder, verb string, arguments ...string) *redistest.Process {
	tb.Helper()
	host, port, err := net.SplitHostPort(addr)
	require.NoError(tb, err)
	words := append([]string{"-B", filepath.Join(pythonFolder(tb), "peer.py"), host, port, folder, verb}, arguments...)
	return redistest.Child(tb, "python", programEnv+"="+python(tb), argumentsEnv+"="+strings.Join(words, " "))
}

// says waits for the next line of a process.
func says(tb testing.TB, process *redistest.Process) string {
	tb.Helper()
	release, err := process.ReadLine(redistest.WaitLimit) // Python that starts on a busy machine takes its time
	require.NoError(tb, err, process.Stderr())
	return release
}

// endsWell lets a process end by itself.
func endsWell(tb testing.TB, process *redistest.Process) {
	tb.Helper()
	process.CloseInput()
	require.Zero(tb, process.Wait(redistest.WaitLimit), process.Stderr())
}
