package main

import (
	"bytes"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/siderolabs/talos/pkg/machinery/api/machine"
)

// The configurations. Each is the worker configuration of Talos's own generator with
// something put below `machine:`.

const (
	smallSize = 15 << 10
	largeSize = 107 << 20 / 10
	// largeLabels is about as many as one mapping may hold for the gateway to read it.
	largeLabels = 4_900
)

// benchMark is the label whose value every apply changes.
const benchMark = "        bench.example.com/turn: "

// workerText is a configuration of 15 KiB as production has it: kernel parameters, labels
// and the comments people write.
func workerText(base []byte) []byte {
	return grown(base, smallSize, func(b *strings.Builder, room func() int) {
		b.WriteString("    sysctls:\n")
		for i := range 40 {
			fmt.Fprintf(b, "        net.core.example_setting_%d: \"%d\"\n", i, i)
		}
		b.WriteString("    nodeLabels:\n" + benchMark + "\"0000000\"\n")
		for i := 0; i < 100 && room() > 0; i++ {
			fmt.Fprintf(b, "        example.com/label-%d: value-%d\n        # a comment about label %d, as people write them\n", i, i, i)
		}
		for i := 0; room() > 0; i++ {
			fmt.Fprintf(b, "        # line %d of the comments that explain what a generated file holds\n", i)
		}
	})
}

// largeText is the largest thing that passes: as many labels as may be, each as long as
// Kubernetes allows, and comments up to the size. The fake worker holds it already, so
// that an apply changes one label only.
func largeText(base []byte) []byte {
	pad := strings.Repeat("x", 320)
	value := strings.Repeat("v", 63)
	return grown(base, largeSize, func(b *strings.Builder, room func() int) {
		b.WriteString("    nodeLabels:\n" + benchMark + "\"0000000\"\n")
		for i := range largeLabels {
			fmt.Fprintf(b, "        %s/label-%07d: %s\n", strings.Repeat("a", 60)+".example.com", i, value)
		}
		for i := 0; room() > 0; i++ {
			fmt.Fprintf(b, "        # line %07d %s\n", i, pad)
		}
	})
}

// labelsText is a configuration of 10.7 MiB that is nothing but labels, more than a
// hundred thousand: what stops a node, and what the gateway must say no to.
func labelsText(base []byte) []byte {
	return grown(base, largeSize, func(b *strings.Builder, room func() int) {
		b.WriteString("    nodeLabels:\n")
		for i := 0; room() > 0; i++ {
			fmt.Fprintf(b, "        example.com/label-%07d: a-value-that-is-as-long-as-labels-like-to-be-%07d\n", i, i)
		}
	})
}

// grown puts what fill writes below the first `machine:` of a configuration.
func grown(base []byte, size int, fill func(b *strings.Builder, room func() int)) []byte {
	var b strings.Builder
	b.Grow(size)
	fill(&b, func() int { return size - len(base) - b.Len() })
	return bytes.Replace(base, []byte("machine:\n"), []byte("machine:\n"+b.String()), 1)
}

// turnText is a text with another value of the marked label: same size, one change.
func turnText(text []byte, turn int) []byte {
	at := bytes.Index(text, []byte(benchMark)) + len(benchMark)
	return append(fmt.Appendf(append(make([]byte, 0, len(text)), text[:at]...), "\"%07d\"", turn), text[at+len("\"0000000\""):]...)
}

// applyRequest is an apply without reboot, encoded.
func applyRequest(text []byte) ([]byte, error) {
	return proto.Marshal(&machine.ApplyConfigurationRequest{Data: text, Mode: machine.ApplyConfigurationRequest_NO_REBOOT})
}
