package opaenvoy

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/open-policy-agent/opa-envoy-plugin/envoyauth"
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/bundle"
	"github.com/open-policy-agent/opa/v1/config"
	"github.com/open-policy-agent/opa/v1/loader"
	"github.com/open-policy-agent/opa/v1/logging"
	"github.com/open-policy-agent/opa/v1/metrics"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/topdown/cache"
	"github.com/open-policy-agent/opa/v1/tracing"
)

// plugin is what opa-envoy-plugin's server gives to its evaluation: OPA as its plugin manager
// sets it up, with a bundle that is read from a directory.
type plugin struct {
	query    ast.Body
	store    storage.Store
	compiler *ast.Compiler
	config   *config.Config
	runtime  *ast.Term
	log      logging.Logger
	queries  cache.InterQueryCache
	values   cache.InterQueryValueCache
	once     sync.Once
	prepared rego.PreparedEvalQuery
	err      error
}

// newPlugin reads the bundle of a directory.
func newPlugin(dir, query string) (*plugin, error) {
	ctx := context.Background()
	b, err := loader.NewFileLoader().WithProcessAnnotation(true).AsBundle(dir)
	if err != nil {
		return nil, err
	}
	limits, err := cache.ParseCachingConfig(nil)
	if err != nil {
		return nil, err
	}
	p := &plugin{
		query: ast.MustParseBody(query), store: inmem.NewWithOpts(inmem.OptRoundTripOnWrite(false), inmem.OptReturnASTValuesOnRead(true)),
		compiler: ast.NewCompiler().WithEnablePrintStatements(true), config: &config.Config{}, runtime: ast.NewTerm(ast.NewObject()), log: logging.NewNoOpLogger(),
		queries: cache.NewInterQueryCache(limits), values: cache.NewInterQueryValueCache(ctx, limits),
	}
	txn, err := p.store.NewTransaction(ctx, storage.WriteParams)
	if err != nil {
		return nil, err
	}
	if err := bundle.Activate(&bundle.ActivateOpts{
		Ctx: ctx, Store: p.store, Txn: txn, Compiler: p.compiler, Metrics: metrics.New(), Bundles: map[string]*bundle.Bundle{"law": b},
	}); err != nil {
		return nil, err
	}
	return p, p.store.Commit(ctx, txn)
}

// decide is one evaluation, from the request as a map on, as the plugin's server does it.
func (p *plugin) decide(ctx context.Context, input any) (any, error) {
	value, err := ast.InterfaceToValue(input)
	if err != nil {
		return nil, err
	}
	result, stop, err := envoyauth.NewEvalResult()
	if err != nil {
		return nil, err
	}
	defer stop()
	if err := envoyauth.Eval(ctx, p, value, result); err != nil {
		return nil, err
	}
	return result.Decision, nil
}

func (p *plugin) ParsedQuery() ast.Body                                   { return p.query }
func (p *plugin) Store() storage.Store                                    { return p.store }
func (p *plugin) Compiler() *ast.Compiler                                 { return p.compiler }
func (p *plugin) Runtime() *ast.Term                                      { return p.runtime }
func (p *plugin) InterQueryBuiltinCache() cache.InterQueryCache           { return p.queries }
func (p *plugin) InterQueryBuiltinValueCache() cache.InterQueryValueCache { return p.values }
func (p *plugin) Logger() logging.Logger                                  { return p.log }
func (p *plugin) Config() *config.Config                                  { return p.config }
func (p *plugin) DistributedTracing() tracing.Options                     { return nil }

func (p *plugin) CreatePreparedQueryOnce(o envoyauth.PrepareQueryOpts) (*rego.PreparedEvalQuery, error) {
	p.once.Do(func() { p.prepared, p.err = rego.New(o.Opts...).PrepareForEval(context.Background(), o.PrepareOpts...) })
	return &p.prepared, p.err
}

// asMap is the request as the plugin's server has it.
func asMap(raw []byte) (out map[string]any, err error) {
	return out, json.Unmarshal(raw, &out)
}
