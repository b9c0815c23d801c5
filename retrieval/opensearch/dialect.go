package opensearch

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// The oldest versions that are supported.
const (
	oldestOpenSearch    = "2.19"
	oldestElasticsearch = "8.4"  // searches by vector and words in one _msearch
	oldestHidden        = "9.2"  // returns vectors only if asked for them
	oldestRescore       = "8.18" // computes the scores of the best of quantized vectors anew
)

// A dialect is what differs between OpenSearch and Elasticsearch: how vectors are stored, and how
// they are searched.
type dialect struct {
	elastic bool
	version string
}

// parseDialect reads the answer to GET /.
func parseDialect(body []byte) (dialect, error) {
	var answer struct {
		Version struct {
			Distribution string `json:"distribution"`
			Number       string `json:"number"`
		} `json:"version"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Version.Number == "" {
		return dialect{}, fmt.Errorf("%w: neither OpenSearch nor Elasticsearch", errAnswer)
	}
	d := dialect{elastic: answer.Version.Distribution != "opensearch", version: oneLine(answer.Version.Number, 32)}
	name, oldest := "OpenSearch", oldestOpenSearch
	if d.elastic {
		name, oldest = "Elasticsearch", oldestElasticsearch
	}
	if older(d.version, oldest) {
		return dialect{}, fmt.Errorf("%s %s is older than %s", name, d.version, oldest)
	}
	return d, nil
}

// older reports whether a version is lower than another in its first two numbers.
func older(version, than string) bool {
	major, minor := numbers(version)
	wantedMajor, wantedMinor := numbers(than)
	return major < wantedMajor || major == wantedMajor && minor < wantedMinor
}

func numbers(version string) (major, minor int) {
	parts := strings.SplitN(version, ".", 3)
	major, _ = strconv.Atoi(parts[0])
	if len(parts) > 1 {
		minor, _ = strconv.Atoi(parts[1])
	}
	return major, minor
}

// indexSettings returns the settings of an index with vectors.
func (d dialect) indexSettings() object {
	settings := object{"auto_expand_replicas": "0-1", "refresh_interval": "30s"}
	if !d.elastic {
		settings["knn"] = true
	}
	return settings
}

// vectorField returns the mapping of a field of vectors. Lucene's HNSW is the engine of OpenSearch
// that filters during the search, and that needs no native library.
func (d dialect) vectorField(dimensions int) object {
	if d.elastic {
		// From 8.14 on servers quantize vectors unless told not to. Before 8.12 m and ef_construction have
		// no defaults, which are these.
		kind := "hnsw"
		if d.rescores() {
			kind = "int8_hnsw"
		}
		return object{
			"type": "dense_vector", "dims": dimensions, "index": true, "similarity": "cosine",
			"index_options": object{"type": kind, "m": 16, "ef_construction": 100},
		}
	}
	return object{
		"type": "knn_vector", "dimension": dimensions,
		"method": object{"name": "hnsw", "engine": "lucene", "space_type": "cosinesimil"},
	}
}

// rescores reports whether a search of quantized vectors can compute the scores of the best anew.
func (d dialect) rescores() bool { return d.elastic && !older(d.version, oldestRescore) }

// source returns the part of a search body that names the fields to return, a vector among them.
func (d dialect) source(fields []string) any {
	if d.elastic && !older(d.version, oldestHidden) {
		return object{"includes": fields, "exclude_vectors": false}
	}
	return fields
}

// oversample is how many times as many quantized vectors are collected as wanted. Of the nearest 100 of
// 10,000 random vectors with 32 dimensions Elasticsearch 8.19 finds .87 by their bytes alone, and .99 with
// this; without quantization .98.
const oversample = 2

// nearest returns the part of a search body that finds the most similar vectors of a field: k are
// collected in each segment, which is also how many the graph is searched for.
func (d dialect) nearest(field string, vector []float32, k int, filter any) object {
	if d.elastic {
		knn := object{"field": field, "query_vector": vector, "k": k, "num_candidates": k}
		if filter != nil {
			knn["filter"] = filter
		}
		return object{"knn": knn}
	}
	knn := object{"vector": vector, "k": k}
	if filter != nil {
		knn["filter"] = filter
	}
	return object{"query": object{"knn": object{field: knn}}}
}

// cosine returns the cosine for a score of nearest: both products return (1 + cosine) / 2.
func cosine(score float64) float64 { return max(-1, min(1, 2*score-1)) }
