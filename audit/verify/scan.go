package verify

import "bytes"

// scan walks over a canonical record once, from its first member to the last that is projected, and notes the value of
// each member that has a column. It is false when the bytes are not in the canonical form: a member that is out of its
// order or there twice, white space, another version. A member it does not know is passed over.
func scan(record []byte, members []spec, values []member) bool {
	n := scanObject(record, 0, members, values, true)
	return n > 0 && record[len(record)-1] == '}'
}

// scanObject gives the place after the object that begins at i, or 0. The outermost object may be left early, at facts:
// nothing that is projected comes after them, and they are the larger part.
func scanObject(b []byte, i int, members []spec, values []member, outermost bool) int {
	if i >= len(b) || b[i] != '{' {
		return 0
	}
	i++
	if i < len(b) && b[i] == '}' {
		return i + 1
	}
	next := 0
	for {
		if i >= len(b) || b[i] != '"' {
			return 0
		}
		i++
		size := bytes.IndexByte(b[i:], '"')
		if size < 0 || i+size+1 >= len(b) || b[i+size+1] != ':' {
			return 0
		}
		name := b[i : i+size]
		i += size + 2
		known := find(members, name, next)
		if outermost && next == 0 && known != 0 { // v is the first
			return 0
		}
		if known < 0 && find(members, name, 0) >= 0 {
			return 0
		}
		end := 0
		switch {
		case known >= 0 && members[known].inner != nil:
			end = scanObject(b, i, members[known].inner, values, false)
		case known >= 0 && outermost && members[known].name == "facts":
			return len(b)
		default:
			end = skip(b, i)
		}
		if end == 0 {
			return 0
		}
		if known >= 0 {
			if outermost && known == 0 && string(b[i:end]) != "1" {
				return 0
			}
			if c := members[known].column; c > 0 {
				values[c] = b[i:end]
			}
			next = known + 1
		}
		i = end
		if i >= len(b) {
			return 0
		}
		switch b[i] {
		case ',':
			i++
		case '}':
			if outermost && i+1 != len(b) {
				return 0
			}
			return i + 1
		default:
			return 0
		}
	}
}

func find(members []spec, name []byte, from int) int {
	for i := from; i < len(members); i++ {
		if members[i].name == string(name) {
			return i
		}
	}
	return -1
}

// skip gives the place after the value that begins at i, or 0. It believes what is inside lists and objects to be JSON.
func skip(b []byte, i int) int {
	if i >= len(b) {
		return 0
	}
	switch c := b[i]; {
	case c == '"':
		return skipText(b, i)
	case c == '-' || c >= '0' && c <= '9' || c == 't' || c == 'f' || c == 'n':
		start := i
		for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' {
			if b[i] <= ' ' {
				return 0
			}
			i++
		}
		if i == start {
			return 0
		}
		return i
	case c != '{' && c != '[':
		return 0
	}
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			if i = skipText(b, i); i == 0 {
				return 0
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return 0
}

// skipText gives the place after the string that begins at i, or 0.
func skipText(b []byte, i int) int {
	for i++; i < len(b); i++ {
		size := bytes.IndexByte(b[i:], '"')
		if size < 0 {
			return 0
		}
		end := i + size
		slashes := 0
		for end-slashes > i && b[end-slashes-1] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return end + 1
		}
		i = end
	}
	return 0
}
