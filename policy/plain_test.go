package policy

import (
	"context"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/loader"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/tester"
)

// What `opa test policy/bundle` does, without our own loader: the directory is plain OPA.
func TestTheShippedDirectoryIsPlainOPA(t *testing.T) {
	ctx := context.Background()
	loaded, err := loader.NewFileLoader().WithRegoVersion(ast.RegoV1).WithProcessAnnotation(true).Filtered([]string{"bundle"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	store := inmem.NewFromObject(loaded.Documents)
	txn, err := store.NewTransaction(ctx, storage.TransactionParams{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Abort(ctx, txn)
	results, err := tester.NewRunner().SetStore(store).SetModules(loaded.ParsedModules()).
		SetDefaultRegoVersion(ast.RegoV1).SetTimeout(testTimeout).Filter("mode_test|admission_test").RunTests(ctx, txn)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for r := range results {
		n++
		if !r.Pass() {
			t.Errorf("%s: %s.%s: %v", r.Location, r.Package, r.Name, r.Error)
		}
	}
	if n < 8 {
		t.Errorf("only %d tests ran", n)
	}
}
