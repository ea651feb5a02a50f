// SPDX-License-Identifier: Apache-2.0

package surface_test

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// All methods of a type have one name for their receiver: one or two letters, the first of which begins a word of the type's name.
func TestAReceiverIsTheLettersOfItsType(t *testing.T) {
	t.Parallel()
	type receiver struct{ folder, pkg, of string }
	names := make(map[receiver]string)
	inFiles(t, func(path string, _ *token.FileSet, file *ast.File) {
		for _, d := range file.Decls {
			method, ok := d.(*ast.FuncDecl)
			if !ok || method.Recv == nil || len(method.Recv.List[0].Names) == 0 {
				continue
			}
			name, of := method.Recv.List[0].Names[0].Name, receiverType(method.Recv.List[0].Type)
			if name == "_" {
				continue
			}
			assert.True(t, abbreviates(name, of), "%s: %q is the receiver of a method of %s: take one or two letters of the type's name", path, name, of)
			r := receiver{filepath.Dir(path), file.Name.Name, of}
			if other, seen := names[r]; seen {
				assert.Equal(t, other, name, "%s: %s has receivers of two names", path, of)
			}
			names[r] = name
		}
	})
}

func TestAbbreviationsOfATypesName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"f", "l", "fl", "fa", "lk"} {
		assert.True(t, abbreviates(name, "fairLock"), name)
	}
	for _, name := range []string{"w", "a", "k", "lf", "lock", "flk"} {
		assert.False(t, abbreviates(name, "fairLock"), name)
	}
}

// abbreviates says whether the receiver's first letter begins a word of the type's name, and its second, if any, comes later.
func abbreviates(receiver, name string) bool {
	first, second := receiver[:1], receiver[1:]
	return len(second) <= 1 && regexp.MustCompile(`(^`+first+`|`+strings.ToUpper(first)+`)(?i:.*`+second+`)`).MatchString(name)
}

// receiverType returns the name of the type of a receiver: without its star and its parameters.
func receiverType(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiverType(e.X)
	case *ast.IndexExpr:
		return receiverType(e.X)
	case *ast.IndexListExpr:
		return receiverType(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
