// Package services has the clients of outside services that retrieval asks: an Embedder makes
// vectors, a Reranker scores passages, an LLM plans and grades. Answers are bounded in time and
// size, and nothing of them is trusted. Errors of an API tell which parameter a model refuses, which
// is left out of its later calls.
package services
