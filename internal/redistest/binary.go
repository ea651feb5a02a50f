// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"fmt"
	"os"
	"os/exec"
)

// ServerEnv names the environment variable that holds the server binary to run, a path or
// a name on PATH. Without it redis-server is run. A script will do if it ends by
// exec-ing the server: signals go to the process that was started. The same binary runs as
// a node of a cluster and as a sentinel.
const ServerEnv = "SIGNALBOX_TEST_SERVER"

// serverBinary finds the server to run.
func serverBinary() (string, error) {
	name := os.Getenv(ServerEnv)
	if name == "" {
		name = "redis-server"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf(
			"no Redis server to test with (%w): run `make test`, which installs one, "+
				"or install it (Debian: apt-get install redis-server), "+
				"or name the binary of a Redis or Valkey server in %s", err, ServerEnv)
	}
	return path, nil
}
