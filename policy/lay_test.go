package policy

import "testing"

// A house's data may be in one file, whatever folders the law keeps its own in.
func TestDataOfAFolderBelowIsLaidOverThere(t *testing.T) {
	b, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	b, err = OverlayFiles(b, File{Path: "bronzeward/data.yaml", Body: []byte("config: {limits: {new_entries: 7}, approvals: {names: 3}}\nquorum: {required: 4}\n")})
	if err != nil {
		t.Fatal(err)
	}
	root, _ := b.parsed.data["bronzeward"].(map[string]any)
	config, _ := root["config"].(map[string]any)
	limits, _ := config["limits"].(map[string]any)
	approvals, _ := config["approvals"].(map[string]any)
	quorum, _ := root["quorum"].(map[string]any)
	if n := jsonNumber(limits["new_entries"]); n != "7" {
		t.Errorf("new_entries is %s", n)
	}
	if n := jsonNumber(limits["new_total"]); n != "4000" {
		t.Errorf("what is beside it is lost: new_total is %s", n)
	}
	if jsonNumber(approvals["names"]) != "3" || jsonNumber(approvals["network"]) != "2" {
		t.Errorf("approvals are %v", approvals)
	}
	if jsonNumber(quorum["required"]) != "4" {
		t.Errorf("quorum is %v", quorum)
	}
}

func jsonNumber(v any) string {
	n, _ := v.(interface{ String() string })
	if n == nil {
		return "none"
	}
	return n.String()
}
