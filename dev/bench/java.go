// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// javaFolder is where make interop builds the Java program.
const javaFolder = "../../.bin/interop/redisson4"

// requiredEnv is "required" if a missing Java side is a failure.
const requiredEnv = "SIGNALBOX_INTEROP"

// hasJava reports whether the Java program is built. Where it must be and is not, that is an error.
func hasJava() (bool, error) {
	_, err := os.Stat(filepath.Join(javaFolder, "built"))
	if err == nil {
		_, err = exec.LookPath("java")
	}
	if err != nil && os.Getenv(requiredEnv) == "required" {
		return false, fmt.Errorf("there is no Java side: make interop builds it: %w", err)
	}
	return err == nil, nil
}

// redissonVersion returns which Redisson the Java program was built with.
func redissonVersion() string {
	jars, err := filepath.Glob(filepath.Join(javaFolder, "lib", "redisson-[0-9]*.jar"))
	if err != nil || len(jars) == 0 {
		return "Redisson"
	}
	return "Redisson " + strings.TrimSuffix(strings.TrimPrefix(filepath.Base(jars[0]), "redisson-"), ".jar")
}

// java is a process in Java with a client of Redisson. It runs loops by itself, each named by a line; it ends
// when its input does, and so with this process.
type java struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	sent    int
}

// startJava starts one that uses a server. lease is what its locks are renewed for.
func startJava(addr string, lease time.Duration) (*java, error) {
	j := &java{command: exec.Command("java", "-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
		"-cp", filepath.Join(javaFolder, "classes")+":"+filepath.Join(javaFolder, "lib", "*"), "signalbox.interop.Peer",
		"single", "redis://"+addr, strconv.FormatInt(lease.Milliseconds(), 10))}
	j.command.Stderr = os.Stderr
	var err error
	if j.in, err = j.command.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := j.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	j.out = bufio.NewReader(out)
	if err := j.command.Start(); err != nil {
		return nil, err
	}
	if _, err := j.reply(); err != nil { // its first line shows that it runs
		return nil, errors.Join(err, j.close())
	}
	return j, nil
}

// do lets it run one verb, and returns its reply.
func (j *java) do(verb string, arguments ...any) (string, error) {
	j.sent++
	if _, err := fmt.Fprintln(j.in, append([]any{j.sent, "bench", verb}, arguments...)...); err != nil {
		return "", fmt.Errorf("java: %w", err)
	}
	return j.reply()
}

func (j *java) reply() (string, error) {
	line, err := j.out.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("java: %w", err)
	}
	_, text, _ := strings.Cut(strings.TrimSpace(line), " ")
	value, ok := strings.CutPrefix(text, "ok ")
	if !ok {
		return "", fmt.Errorf("java: %s", text)
	}
	return value, nil
}

// numbers is do for a verb that returns numbers with commas between them.
func (j *java) numbers(verb string, arguments ...any) ([]int64, error) {
	text, err := j.do(verb, arguments...)
	if err != nil {
		return nil, err
	}
	var all []int64
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("java: %s: %w", verb, err)
		}
		all = append(all, n)
	}
	return all, nil
}

// close ends it.
func (j *java) close() error {
	_ = j.in.Close()
	return j.command.Wait()
}
