// SPDX-License-Identifier: Apache-2.0

package inspecthttp

import (
	"cmp"
	"mime"
	"slices"
	"strconv"
	"strings"
)

const jsonType, htmlType = "application/json", "text/html"

// acceptance is what an Accept header says of a media type, by the narrowest range that has it. The zero acceptance is that of a type
// which no range has.
type acceptance struct {
	weight float64
	narrow int // 3 if the range is the type, 2 if it is all types of its kind, 1 if it is all types
	before int // how many ranges are left behind it
}

// prefersJSON reports whether the values of an Accept header prefer JSON to HTML. Without a preference a page is HTML.
func prefersJSON(accept []string) bool {
	var json, html acceptance
	ranges := listOfHeader(accept)
	for i, text := range ranges {
		named, parameters, err := mime.ParseMediaType(text)
		weight, valid := weightOf(parameters)
		if err != nil || !valid {
			continue
		}
		json.consider(jsonType, named, weight, len(ranges)-i)
		html.consider(htmlType, named, weight, len(ranges)-i)
	}
	order := cmp.Or(cmp.Compare(json.weight, html.weight), cmp.Compare(json.narrow, html.narrow), cmp.Compare(json.before, html.before))
	return json.weight > 0 && order > 0
}

// consider takes a range over if it has the media type, and is narrower than those before.
func (a *acceptance) consider(mediaType, named string, weight float64, before int) {
	kind, _, _ := strings.Cut(mediaType, "/")
	narrow := 1 + slices.Index([]string{"*/*", kind + "/*", mediaType}, named)
	if narrow > a.narrow {
		*a = acceptance{weight, narrow, before}
	}
}

// weightOf returns the weight among the parameters of a range, 1 if there is none, and whether it is valid.
func weightOf(parameters map[string]string) (weight float64, valid bool) {
	text, given := parameters["q"]
	if !given {
		return 1, true
	}
	weight, err := strconv.ParseFloat(text, 64)
	return weight, err == nil && weight >= 0 && weight <= 1
}

// listOfHeader returns the elements of a header whose values are lists. A comma between quotes separates nothing.
func listOfHeader(values []string) (elements []string) {
	for _, value := range values {
		begin, quoted := 0, false
		for i := 0; i < len(value); i++ {
			switch c := value[i]; {
			case c == '"':
				quoted = !quoted
			case quoted && c == '\\':
				i++
			case c == ',' && !quoted:
				elements = append(elements, value[begin:i])
				begin = i + 1
			}
		}
		elements = append(elements, value[begin:])
	}
	return elements
}
