// Package services has the clients of the external services that retrieval uses: an Embedder makes
// vectors, a Reranker scores passages, an LLM plans and grades. Answers are limited in time and
// size and treated as untrusted. If an API error says which parameter a model refuses, later calls
// to that model omit it.
package services
