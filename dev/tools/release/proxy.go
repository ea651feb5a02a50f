// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	xmodule "golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// revision returns the commit that is checked: the last one, or one of what has changed since, which is on no branch.
func revision(root string) (string, error) {
	// A file that was rewritten with the same content looks changed to git stash, which then fails. The refresh itself fails if a
	// file has really changed, which is no error here.
	_ = exec.Command("git", "-C", root, "update-index", "-q", "--refresh").Run()
	out, err := exec.Command("git", "-C", root, "-c", "user.name=check", "-c", "user.email=check", "stash", "create").Output()
	if commit := strings.TrimSpace(string(out)); err != nil || commit != "" {
		return commit, err
	}
	return "HEAD", nil
}

// export puts the files of the commit into dir. A nested module without a LICENSE gets that of the repository, as the go command
// does it.
func export(root, commit string, modules []module, dir string) error {
	archive := exec.Command("git", "-C", root, "-c", "core.autocrlf=input", "-c", "core.eol=lf", "archive", commit)
	out, err := archive.StdoutPipe()
	if err != nil {
		return err
	}
	if err := archive.Start(); err != nil {
		return err
	}
	failed := untar(out, dir)
	if err := errors.Join(failed, archive.Wait()); err != nil {
		return fmt.Errorf("git archive: %w", err)
	}
	license, err := os.ReadFile(filepath.Join(dir, "LICENSE"))
	if err != nil {
		return err
	}
	for _, m := range modules {
		at := filepath.Join(dir, m.dir, "LICENSE")
		if _, err := os.Stat(at); err == nil {
			continue
		}
		if err := os.WriteFile(at, license, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// untar writes the regular files of an archive below dir. Links are no part of a module.
func untar(archive io.Reader, dir string) error {
	files := tar.NewReader(archive)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		at := filepath.Join(dir, filepath.FromSlash(header.Name)) //nolint:gosec // of our own repository
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		text, err := io.ReadAll(files)
		if err == nil {
			err = os.WriteFile(at, text, 0o600)
		}
		if err != nil {
			return err
		}
	}
}

// publish puts the modules of the folder source into dir, as a module proxy has them after the tags: GOPROXY=file://dir.
func publish(source string, modules []module, version, dir string) error {
	for _, m := range modules {
		name := m.file.Module.Mod.Path
		escaped, err := xmodule.EscapePath(name)
		if err != nil {
			return err
		}
		at := filepath.Join(dir, escaped, "@v")
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
		var archive bytes.Buffer
		if err := zip.CreateFromDir(&archive, xmodule.Version{Path: name, Version: version}, filepath.Join(source, m.dir)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		goMod, err := os.ReadFile(filepath.Join(source, m.dir, "go.mod"))
		if err != nil {
			return err
		}
		info := fmt.Sprintf(`{"Version":%q,"Time":%q}`, version, time.Unix(0, 0).UTC().Format(time.RFC3339))
		for file, text := range map[string][]byte{
			"list": []byte(version + "\n"), version + ".info": []byte(info), version + ".mod": goMod, version + ".zip": archive.Bytes(),
		} {
			if err := os.WriteFile(filepath.Join(at, file), text, 0o600); err != nil {
				return err
			}
		}
		fmt.Printf("%s@%s: %d KB\n", name, version, archive.Len()>>10)
	}
	return nil
}
