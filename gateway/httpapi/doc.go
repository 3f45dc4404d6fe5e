// Package httpapi is the HTTP door: health, readiness and metrics. Its route table is
// one page.
package httpapi
