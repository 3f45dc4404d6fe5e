// Package policytest is the proving ground of the law: case files that say of a call
// what the verdict must be, and a runner for them.
//
// A case file is YAML (see case.schema.json): a base of facts, and cases that each lay a
// few facts over it and name the wanted verdict, codes, Talos roles and approvals. Run
// takes any fs.FS and any bundle, so a site keeps its own cases beside its own rules.
// Shipped is the set that comes with Bronzeward; it covers every method of the Talos API
// for every role, every mode, and every kind of configuration change.
//
// The tests of this folder also hold the house rules: who may import whom, how long a
// file may be, and which words are not used.
package policytest
