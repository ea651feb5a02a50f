// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"hash/fnv"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// site is a place where an operator can be applied: Old, at an offset of the file, becomes New.
type site struct {
	at       int
	operator string
	old, new string
}

// goOperators are what becomes of a token, by the name of the operator.
var goOperators = map[string]map[string]string{
	"boundary":   {">=": ">", ">": ">=", "<=": "<", "<": "<="},
	"negation":   {"==": "!=", "!=": "==", ">=": "<", ">": "<=", "<=": ">", "<": ">="},
	"logical":    {"&&": "||", "||": "&&"},
	"arithmetic": {"+": "-", "-": "+", "*": "/", "/": "*", "%": "*", "&": "|", "|": "&", "^": "&", "&^": "&", "<<": ">>", ">>": "<<"},
	"step":       {"++": "--", "--": "++", "+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=", "|=": "&=", "&=": "|=", "&^=": "&=", "<<=": ">>=", ">>=": "<<="},
	"loop":       {"break": "continue", "continue": "break"},
	"not":        {"!": ""},
}

// sites returns the places in the functions of a file in Go, by function.
func (s source) sites() map[string][]site {
	found := make(map[string][]site)
	for name, f := range s.functions() {
		add := func(at token.Pos, old string) {
			for _, operator := range slices.Sorted(maps.Keys(goOperators)) {
				if changed, can := goOperators[operator][old]; can {
					found[name] = append(found[name], site{at: s.at(at), operator: operator, old: old, new: changed})
				}
			}
		}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				add(n.OpPos, n.Op.String())
			case *ast.UnaryExpr:
				if n.Op == token.NOT {
					add(n.OpPos, n.Op.String())
				}
			case *ast.IncDecStmt:
				add(n.TokPos, n.Tok.String())
			case *ast.AssignStmt:
				add(n.TokPos, n.Tok.String())
			case *ast.BranchStmt:
				if n.Label == nil {
					add(n.TokPos, n.Tok.String())
				}
			case *ast.ExprStmt:
				found[name] = append(found[name], site{at: s.at(n.Pos()), operator: "call", old: s.text[s.at(n.Pos()):s.at(n.End())]})
			}
			return true
		})
	}
	return found
}

// chosen takes each n-th site of each operator. A hash says which is the first.
func chosen(file, function string, sites []site, every int) (taken []site) {
	slices.SortStableFunc(sites, func(a, b site) int { return cmp.Compare(a.at, b.at) })
	count := make(map[string]int)
	for _, s := range sites {
		hash := fnv.New32a()
		hash.Write([]byte(file + " " + function + " " + s.operator))
		if (int(hash.Sum32()%uint32(every))+count[s.operator])%every == 0 {
			taken = append(taken, s)
		}
		count[s.operator]++
	}
	return taken
}

// extend adds mutants of files and folders to the list, without those that do not build.
func extend(root, name string, every int, paths []string) error {
	header, list, err := readList(name)
	if err != nil {
		return err
	}
	known := make(map[string]bool)
	for _, m := range list {
		known[m.key()] = true
	}
	work, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	added := []string{header}
	for _, pattern := range paths {
		fresh, err := sampled(root, pattern, every, known)
		if err != nil {
			return err
		}
		o, err := newOverlay(root, filepath.Join(work, pattern), hooks, fresh)
		if err != nil {
			return err
		}
		for _, m := range fresh {
			if !m.isLua() {
				if _, err := o.build(path.Dir(m.File)); err != nil {
					return err
				}
				break
			}
		}
		for i, m := range fresh {
			if !o.broken[i] {
				list = append(list, m)
			}
		}
		added = append(added, fmt.Sprintf("# mutate list -every %d '%s'\n", every, pattern))
		fmt.Printf("%s: %d more, and %d that do not build\n", pattern, len(fresh)-len(o.broken), len(o.broken))
	}
	return writeList(name, strings.Join(added, ""), list)
}

// sampled returns mutants of the files of a folder that match a pattern, without those that are known.
func sampled(root, pattern string, every int, known map[string]bool) (fresh []mutant, err error) {
	files, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil {
		return nil, err
	}
	for _, full := range files {
		file, err := filepath.Rel(root, full)
		if err != nil {
			return nil, err
		}
		if file = filepath.ToSlash(file); strings.HasSuffix(file, "_test.go") {
			continue
		}
		s, err := readSource(root, file)
		if err != nil {
			return nil, err
		}
		sites := s.sites()
		if s.file == nil {
			sites = map[string][]site{everywhere: luaSites(s.text)}
		}
		for _, function := range slices.Sorted(maps.Keys(sites)) {
			for _, at := range chosen(file, function, sites[function], every) {
				if m := s.row(file, function, at.at, at.old, at.new); !known[m.key()] {
					known[m.key()], fresh = true, append(fresh, m)
				}
			}
		}
	}
	return fresh, nil
}
