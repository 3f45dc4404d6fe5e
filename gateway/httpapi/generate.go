package httpapi

// openapi.yaml is the files of openapi/ in order, which are small enough to read. Types and
// client are made of it.
//
//go:generate sh -c "{ echo '# Code generated from openapi/*.yaml by go generate. DO NOT EDIT.'; cat openapi/*.yaml; } >openapi.yaml"
//go:generate go tool -modfile=../../tools.mod oapi-codegen -config api/oapi-codegen.yaml openapi.yaml
//go:generate go tool -modfile=../../tools.mod oapi-codegen -config apiclient/oapi-codegen.yaml openapi.yaml
