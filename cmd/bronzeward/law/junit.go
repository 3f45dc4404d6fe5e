package law

import (
	"encoding/xml"
	"os"
	"strings"
	"time"

	"bronzeward/policy"
)

// junitSuites is JUnit's XML, as far as CI systems read it; times are in seconds.
type junitSuites struct {
	XMLName xml.Name     `xml:"testsuites"`
	Suites  []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Seconds  float64     `xml:"time,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	File    string        `xml:"file,attr"`
	Line    int           `xml:"line,attr"`
	Seconds float64       `xml:"time,attr"`
	Failure *junitFailure `xml:"failure"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

func (s *junitSuite) add(name, class, file string, line int, took time.Duration, failures ...string) {
	c := junitCase{Name: name, Class: class, File: file, Line: line, Seconds: took.Seconds()}
	if len(failures) > 0 {
		c.Failure = &junitFailure{Message: failures[0], Text: strings.Join(failures, "\n")}
		s.Failures++
	}
	s.Tests++
	s.Seconds += c.Seconds
	s.Cases = append(s.Cases, c)
}

// writeJUnit writes a suite of the Rego tests and one of the cases.
func writeJUnit(file string, t *tested) error {
	rego, cases := junitSuite{Name: "rego"}, junitSuite{Name: casesDir}
	add := func(r policy.TestResult, failures ...string) {
		class, name := r.Name, r.Name
		if i := strings.LastIndex(r.Name, "."); i >= 0 {
			class, name = r.Name[:i], r.Name[i+1:]
		}
		rego.add(name, class, r.File, r.Line, r.Took, failures...)
	}
	for _, r := range t.Failed {
		add(r, r.Message)
	}
	for _, r := range t.Passed {
		add(r)
	}
	for _, c := range t.Cases {
		class, name, _ := strings.Cut(c.Name, ": ")
		cases.add(name, class, casesDir+"/"+c.File, c.Line, c.Took, c.Failures...)
	}
	text, err := xml.MarshalIndent(junitSuites{Suites: []junitSuite{rego, cases}}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append([]byte(xml.Header), append(text, '\n')...), 0o644)
}
