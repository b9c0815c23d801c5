package knowledge

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/index"
)

// Load reads a folder. Files that cannot or should not be read are skipped and listed in the
// report. It fails if the folder cannot be opened, a pattern or attribute is invalid, or ctx ends.
// Links are followed only to files inside the folder.
func Load(ctx context.Context, f folder.Folder, deps Deps) (*Content, folder.Report, error) {
	source, err := folder.Open(f)
	if err != nil {
		return nil, folder.Report{}, fmt.Errorf("knowledge %s: %w", f.ID, err)
	}
	defer func() { _ = source.Close() }()
	return load(ctx, source, f, deps)
}

// FromFS is Load from a file system, such as documents embedded in the binary. f.Path is ignored.
func FromFS(ctx context.Context, fsys fs.FS, f folder.Folder, deps Deps) (*Content, folder.Report, error) {
	return load(ctx, folder.FromFS(fsys), f, deps)
}

func load(ctx context.Context, source *folder.Source, f folder.Folder, deps Deps) (*Content, folder.Report, error) {
	rules, err := folder.NewRules(f)
	if err != nil {
		return nil, folder.Report{}, fmt.Errorf("knowledge %s: %w", f.ID, err)
	}
	files, skipped, err := source.Files(ctx, f, deps.PDF)
	if err != nil {
		return nil, folder.Report{}, fmt.Errorf("knowledge %s: %w", f.ID, err)
	}
	b := newBuild(f.ID, deps, len(files))
	b.account.Report.Skipped = skipped
	times := source.Times(files)
	return b.run(ctx, func(ctx context.Context, i int) ([]chunk.Document, *folder.Skip) {
		documents, skip := source.Read(ctx, files[i], deps.PDF)
		for j, d := range documents {
			var notes []folder.Note
			documents[j], notes = rules.Apply(files[i], d, times[files[i]])
			b.account.Note(notes...)
		}
		return documents, skip
	})
}

// FromDocuments makes a Content of documents, in any order. An id that is empty or occurs twice is
// an error, and so is an attribute that chunk.Attribute rejects.
func FromDocuments(ctx context.Context, documents []chunk.Document, deps Deps) (*Content, folder.Report, error) {
	checked := make([]chunk.Document, len(documents))
	for i, d := range documents {
		if d.ID == "" {
			return nil, folder.Report{}, fmt.Errorf("document %d has no id", i)
		}
		var err error
		if checked[i], err = d.Normal(); err != nil {
			return nil, folder.Report{}, err
		}
	}
	b := newBuild("", deps, len(documents))
	return b.run(ctx, func(_ context.Context, i int) ([]chunk.Document, *folder.Skip) { return checked[i : i+1], nil })
}

// A build makes a Content in memory.
type build struct {
	base    string
	deps    Deps
	cut     [][]Cut // by file number
	account *folder.Account
}

func newBuild(base string, deps Deps, files int) *build {
	return &build{base: base, deps: deps, cut: make([][]Cut, files), account: folder.NewAccount(base, files, deps.Progress)}
}

// run reads and cuts the documents in parallel, then indexes them in order of id.
func (b *build) run(ctx context.Context, read func(ctx context.Context, i int) ([]chunk.Document, *folder.Skip)) (*Content, folder.Report, error) {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range b.cut {
		g.Go(func() error {
			if err := gctx.Err(); err != nil {
				return err
			}
			documents, skip := read(gctx, i)
			chunks, bytes := 0, 0
			for _, d := range documents {
				cut, err := b.deps.Cut(b.base, d)
				if err != nil {
					skip = folder.TooLarge(d.ID, err)
					continue
				}
				chunks, bytes = chunks+len(cut.Chunks), bytes+len(d.Text)
				b.cut[i] = append(b.cut[i], cut)
			}
			b.account.File(chunks, bytes, skip, len(documents) > 0 || skip == nil)
			return nil
		})
	}
	if err := cmp.Or(g.Wait(), ctx.Err()); err != nil {
		return nil, folder.Report{}, fmt.Errorf("read knowledge %s: %w", b.base, err)
	}
	c, err := b.assemble(ctx)
	if err != nil {
		return nil, folder.Report{}, fmt.Errorf("index knowledge %s: %w", b.base, err)
	}
	report := &b.account.Report
	twins := c.Segments().Twins()
	for _, t := range twins {
		report.Skipped = append(report.Skipped, folder.SameAs(t.Document, t.Same))
	}
	report.Sort()
	report.Chunks, report.Written = c.Chunks(), c.Documents()+len(twins)
	return c, *report, nil
}

// assemble indexes the cut documents.
func (b *build) assemble(ctx context.Context) (*Content, error) {
	all := slices.Concat(b.cut...)
	b.cut = nil
	// Of equal ids, a whole file comes before a part of one.
	slices.SortFunc(all, func(a, b Cut) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(min(len(a.Key), 1), min(len(b.Key), 1)), cmp.Compare(a.File, b.File))
	})
	var segments index.Segments
	writer := index.Writer{Emit: segments.Take}
	var sum chunk.Sum
	for i, d := range all {
		if i > 0 && d.ID == all[i-1].ID {
			if d.File == "" {
				return nil, fmt.Errorf("document id %q comes twice", d.ID)
			}
			b.account.Skip(folder.Duplicate(d.ID))
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		sum = sum.Add(d.Sum)
		if err := writer.Add(d.indexed(int64(i))); err != nil {
			return nil, err
		}
		all[i].Chunks = nil // not needed any more
	}
	if err := writer.Flush(); err != nil {
		return nil, err
	}
	segments = segments.WithoutTwins(new(index.Verdicts))
	return NewContent(ctx, segments, ContentOptions{Generation: Generation(sum, b.deps.Version)})
}
