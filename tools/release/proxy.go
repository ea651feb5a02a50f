// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	xmodule "golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// publish puts the modules into dir, as a module proxy has them: GOPROXY=file://dir.
func publish(modules []releasedModule, version, dir string) error {
	for _, m := range modules {
		escaped, err := xmodule.EscapePath(m.path)
		if err != nil {
			return err
		}
		goMod, err := m.goMod(modules, version)
		if err != nil {
			return err
		}
		at := filepath.Join(dir, escaped, "@v")
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
		var archive bytes.Buffer
		if err := zip.Create(&archive, xmodule.Version{Path: m.path, Version: version}, m.zipFiles(goMod)); err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
		info := fmt.Sprintf(`{"Version":%q,"Time":%q}`, version, time.Unix(0, 0).UTC().Format(time.RFC3339))
		for name, text := range map[string][]byte{
			"list": []byte(version + "\n"), version + ".info": []byte(info), version + ".mod": goMod, version + ".zip": archive.Bytes(),
		} {
			if err := os.WriteFile(filepath.Join(at, name), text, 0o600); err != nil {
				return err
			}
		}
		fmt.Printf("%s@%s: %d files, %d KB\n", m.path, version, len(m.files), archive.Len()>>10)
	}
	return nil
}

// zipFiles returns the files of the module with another go.mod. A nested module without a LICENSE gets that of the
// repository, as the go command does it.
func (m releasedModule) zipFiles(goMod []byte) (files []zip.File) {
	licensed := false
	for _, name := range m.files {
		licensed = licensed || name == "LICENSE"
		if name == "go.mod" {
			files = append(files, zipFile{name: name, at: m.file(name), text: goMod})
			continue
		}
		files = append(files, zipFile{name: name, at: m.file(name)})
	}
	if !licensed {
		files = append(files, zipFile{name: "LICENSE", at: filepath.Join(m.root, "LICENSE")})
	}
	return files
}

// zipFile is a file of a module: that of the checkout, or another text.
type zipFile struct {
	name, at string
	text     []byte
}

func (f zipFile) Path() string { return f.name }

func (f zipFile) Lstat() (fs.FileInfo, error) {
	info, err := os.Lstat(f.at)
	if err != nil || f.text == nil {
		return info, err
	}
	return sizedInfo{info, int64(len(f.text))}, nil
}

func (f zipFile) Open() (io.ReadCloser, error) {
	if f.text != nil {
		return io.NopCloser(bytes.NewReader(f.text)), nil
	}
	return os.Open(f.at)
}

// sizedInfo is what is known of a file whose text is another.
type sizedInfo struct {
	fs.FileInfo
	size int64
}

func (i sizedInfo) Size() int64 { return i.size }
