package policy

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v4"
)

// mostAliased is how many bytes the aliases of one data file may add to what is written. A few aliases of
// aliases stand for more than any memory holds.
const mostAliased = 64 << 10

// checkAliases refuses a YAML document whose aliases would make far more of it than is written, before
// they are followed. What is no YAML is for the decoder to say.
func checkAliases(body []byte) error {
	if !bytes.ContainsRune(body, '*') {
		return nil
	}
	var top yaml.Node
	if yaml.Unmarshal(body, &top) != nil {
		return nil
	}
	w := weighing{most: len(body) + mostAliased, known: map[*yaml.Node]int{}}
	if w.weight(&top) > w.most {
		return fmt.Errorf("the aliases of the data stand for more than %d bytes: write out what they name, or name less", mostAliased)
	}
	return nil
}

// weighing sums up documents, with what an alias names counted wherever it is named.
type weighing struct {
	most  int
	known map[*yaml.Node]int
}

// weight is about how many bytes a node stands for; it counts no further than just above most.
func (w *weighing) weight(n *yaml.Node) int {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if sum, ok := w.known[n]; ok {
		return sum
	}
	w.known[n] = w.most + 1 // one that is in itself stands for no end
	sum := len(n.Value)
	for _, inner := range n.Content {
		if sum += 1 + w.weight(inner); sum > w.most {
			sum = w.most + 1
			break
		}
	}
	w.known[n] = sum
	return sum
}
