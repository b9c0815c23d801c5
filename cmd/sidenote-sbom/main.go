// Command sidenote-sbom writes the software bill of materials of a Go program as SPDX 2.3 in JSON:
//
//	sidenote-sbom PROGRAM VERSION >PROGRAM.spdx.json
//
// It lists the modules that the linker recorded in the program, and so nothing that is only built
// for tests or other systems. SOURCE_DATE_EPOCH is the time of the document, in seconds since 1970.
package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

func main() {
	if err := run(os.Args[1:], os.Getenv("SOURCE_DATE_EPOCH"), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sidenote-sbom:", err)
		os.Exit(1)
	}
}

// run writes the document of the program that args name, with its version.
func run(args []string, epoch string, to io.Writer) error {
	if len(args) != 2 {
		return fmt.Errorf("want the name of a program and its version, got %q", args)
	}
	seconds, err := strconv.ParseInt(cmp.Or(epoch, "0"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH is %q, want seconds since 1970", epoch)
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(args[0])
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	return spdxjson.Write(document(filepath.Base(args[0]), args[1], hex.EncodeToString(sum[:]), info, time.Unix(seconds, 0)), to, spdxjson.Indent(" "))
}

const (
	documentID = common.ElementID("DOCUMENT")
	programID  = common.ElementID("program")
	unknown    = "NOASSERTION"
)

// document describes a program with a digest, and the Go release and the modules that it is built
// from.
func document(name, version, digest string, info *debug.BuildInfo, at time.Time) *spdx.Document {
	doc := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: documentID,
		DocumentName: name, DocumentNamespace: "https://spdx.org/spdxdocs/" + name + "-" + digest,
		CreationInfo: &spdx.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "sidenote-sbom"}},
			Created:  at.UTC().Format(time.RFC3339),
		},
	}
	program := part(programID, name, version)
	program.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: digest}}
	program.PackageLicenseDeclared, program.PrimaryPackagePurpose = "Apache-2.0", "APPLICATION"
	doc.Packages = append(doc.Packages, program)
	relate(doc, documentID, programID, common.TypeRelationshipDescribe)
	add(doc, "go", "stdlib", strings.TrimPrefix(info.GoVersion, "go"), "pkg:golang/stdlib@"+strings.TrimPrefix(info.GoVersion, "go"))
	for i, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		add(doc, "module-"+strconv.Itoa(i+1), m.Path, m.Version, "pkg:golang/"+m.Path+"@"+strings.ReplaceAll(m.Version, "+", "%2B"))
	}
	return doc
}

// add adds a part of the program, with its package URL.
func add(doc *spdx.Document, id, name, version, url string) {
	p := part(common.ElementID(id), name, version)
	p.PackageExternalReferences = []*spdx.PackageExternalReference{{Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: url}}
	doc.Packages = append(doc.Packages, p)
	relate(doc, programID, p.PackageSPDXIdentifier, common.TypeRelationshipContains)
}

func part(id common.ElementID, name, version string) *spdx.Package {
	return &spdx.Package{
		PackageSPDXIdentifier: id, PackageName: name, PackageVersion: version,
		PackageDownloadLocation: unknown, PackageLicenseConcluded: unknown, PackageLicenseDeclared: unknown, PackageCopyrightText: unknown,
		IsFilesAnalyzedTagPresent: true, // files are not analyzed
	}
}

func relate(doc *spdx.Document, from, to common.ElementID, how string) {
	doc.Relationships = append(doc.Relationships, &spdx.Relationship{
		RefA: common.MakeDocElementID("", string(from)), RefB: common.MakeDocElementID("", string(to)), Relationship: how,
	})
}
