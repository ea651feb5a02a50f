// SPDX-License-Identifier: Apache-2.0

package redistest

// StartChild is Child for programs that are no tests, and for a TestMain. The caller must Close the process; if the program
// ends without, the process ends with it.
func StartChild(name string, env ...string) (*Process, error) {
	return startChild(reporter{}, name, env)
}

// Close kills the child and closes its pipes. A Process of [Child] is closed when its test ends.
func (p *Process) Close() { p.close() }
