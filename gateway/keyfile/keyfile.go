// Package keyfile reads keys for development from a file. In production keys are OpenBao's.
//
//	{"current": "k1", "keys": {"k1": "<base64 of 32 random bytes or more>", "k2": …}}
//
// The file says by its name that it is for development, and nobody but its owner may be able
// to read it. Whoever can read it has the keys, and whoever can write it chooses them: its
// mode is all that protects it. No error text holds a key.
package keyfile

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	// MaxSize is the largest key file in bytes: room for a thousand keys.
	MaxSize = 64 << 10
	// MinKey is the shortest key in bytes.
	MinKey = 32
)

// versionShape are the names of keys: k1, k2 and so on.
var versionShape = regexp.MustCompile(`^k[1-9][0-9]{0,8}$`)

// Read gives the keys of a file by their version, and the version that new work is done
// with, which is one of them. It reads the file once, at the call; every problem of the keys
// is in the error, joined.
func Read(path string) (current string, keys map[string][]byte, err error) {
	text, err := read(path)
	if err != nil {
		return "", nil, fmt.Errorf("reading key file %s: %w", path, err)
	}
	current, keys, err = parse(text)
	if err != nil {
		return "", nil, fmt.Errorf("reading key file %s: %w", path, err)
	}
	return current, keys, nil
}

// read checks the name, and mode and size of the very file that it reads.
func read(path string) ([]byte, error) {
	if !strings.Contains(filepath.Base(path), "development") {
		return nil, errors.New("its name does not contain \"development\", and keys in a file are for nothing else")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, reason(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, reason(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a file")
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, errors.New("others can read it (chmod 600 it)")
	}
	text, err := io.ReadAll(io.LimitReader(file, MaxSize+1))
	if err != nil {
		return nil, reason(err)
	}
	if len(text) > MaxSize {
		return nil, fmt.Errorf("it is larger than %d bytes", MaxSize)
	}
	return text, nil
}

// reason is the cause without the path, which Read names.
func reason(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

func parse(text []byte) (string, map[string][]byte, error) {
	var file struct {
		Current string            `json:"current"`
		Keys    map[string]string `json:"keys"`
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil {
		// The decoder's own text may quote what it read.
		return "", nil, errors.New("not a JSON object with \"current\" and \"keys\" of base64 text")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return "", nil, errors.New("more than one JSON value")
	}
	var problems []error
	keys := make(map[string][]byte, len(file.Keys))
	for _, version := range slices.Sorted(maps.Keys(file.Keys)) {
		key, err := base64.StdEncoding.DecodeString(file.Keys[version])
		switch {
		case !versionShape.MatchString(version):
			problems = append(problems, fmt.Errorf("key version %s is not k1, k2, …", shown(version)))
		case err != nil:
			problems = append(problems, fmt.Errorf("key %s is not base64", version))
		case len(key) < MinKey:
			problems = append(problems, fmt.Errorf("key %s is shorter than %d bytes", version, MinKey))
		}
		keys[version] = key
	}
	if _, ok := keys[file.Current]; !ok {
		problems = append(problems, fmt.Errorf("current key %s is not among the keys", shown(file.Current)))
	}
	if err := errors.Join(problems...); err != nil {
		return "", nil, err
	}
	return file.Current, keys, nil
}

// shown quotes a name: short, because a key may have been put where a name belongs.
func shown(name string) string {
	if len(name) > 12 {
		return "of " + strconv.Itoa(len(name)) + " bytes"
	}
	return strconv.QuoteToASCII(name)
}
