// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// machineBlock is the block that names the machine, the server and the rivals.
const machineBlock = "machine"

// blocks matches what a run prints: blocks between two comments of Markdown, one that names the machine, and one for the
// tables of each work. A page has the same blocks, with text around them.
func blocks() *regexp.Regexp {
	return regexp.MustCompile(`(?s)<!-- bench: ([a-z-]+) -->\n(.*?)\n<!-- end -->`)
}

// writeBlock prints the block of a work.
func writeBlock(out io.Writer, work string, tables []table) error {
	return block(out, work, func(out io.Writer) error {
		for _, t := range tables {
			if err := t.write(out); err != nil {
				return err
			}
		}
		return nil
	})
}

// block prints a block.
func block(out io.Writer, name string, body func(io.Writer) error) error {
	if _, err := fmt.Fprintf(out, "\n<!-- bench: %s -->\n", name); err != nil {
		return err
	}
	if err := body(out); err != nil {
		return err
	}
	_, err := fmt.Fprint(out, "\n<!-- end -->\n")
	return err
}

// renew puts the blocks of a run into a page.
func renew(path string, run io.Reader) error {
	results, err := io.ReadAll(run)
	if err != nil {
		return err
	}
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text, err := renewed(string(page), string(results))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(text), 0o600)
}

// renewed returns the page with the blocks of results in place of its own. A block that is not in results stays as it is.
// So does one that has no table in results: its work was left out.
func renewed(page, results string) (string, error) {
	fresh := make(map[string]string)
	for _, found := range blocks().FindAllStringSubmatch(results, -1) {
		if strings.Contains(found[2], "\n|") || found[1] == machineBlock {
			fresh[found[1]] = found[0]
		}
	}
	page = blocks().ReplaceAllStringFunc(page, func(old string) string {
		name := blocks().FindStringSubmatch(old)[1]
		text, has := fresh[name]
		delete(fresh, name)
		if !has {
			return old
		}
		return text
	})
	for name := range fresh {
		return "", fmt.Errorf("there is no block %q", name)
	}
	return page, nil
}
