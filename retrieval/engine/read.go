package engine

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/index"
)

// read reads the files that have changed, and writes their documents.
func (s *syncing) read(ctx context.Context, files []string) error {
	files, groups := twinFiles(files)
	for _, group := range groups {
		if err := s.readTwins(ctx, group); err != nil {
			return err
		}
	}
	var changed []cutFile
	flush := func() error {
		defer func() { changed = nil }()
		return s.readAll(ctx, changed)
	}
	for _, name := range files {
		stamp := s.stamp(name)
		if s.unchanged(name, stamp) {
			_, chunks := s.keep(name)
			s.account.File(chunks, 0, s.skips[name], true)
			s.account.Report.Unchanged += len(s.of[name])
			s.stamps[name] = stamp
			continue
		}
		if changed = append(changed, cutFile{name: name, stamp: stamp}); len(changed) == putFiles {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	return s.put(ctx)
}

// twinFiles divides files into those without twins, and groups of files that may say the same in
// several formats.
func twinFiles(files []string) (alone []string, groups [][]string) {
	named, formats := map[string][]string{}, map[string]map[int]bool{}
	for _, file := range files {
		name, format, ok := index.TwinName(file)
		if !ok {
			continue
		}
		if named[name] = append(named[name], file); formats[name] == nil {
			formats[name] = map[int]bool{}
		}
		formats[name][format] = true
	}
	for _, file := range files {
		name, _, ok := index.TwinName(file)
		switch {
		case !ok || len(formats[name]) < 2:
			alone = append(alone, file)
		case named[name][0] == file:
			groups = append(groups, named[name])
		}
	}
	return alone, groups
}

// readTwins reads a group of files that may be twins, unless none has changed. Documents that another
// one of them contains are not written. As the engine does not have them, only the process that read
// them knows that they have not changed.
func (s *syncing) readTwins(ctx context.Context, group []string) error {
	files, same := make([]cutFile, len(group)), true
	for i, name := range group {
		files[i] = cutFile{name: name, stamp: s.stamp(name)}
		same = same && s.unchanged(name, files[i].stamp)
	}
	if same {
		for _, f := range files {
			documents, chunks := s.keep(f.name)
			s.account.File(chunks, 0, s.skips[f.name], true)
			s.account.Report.Unchanged += documents
		}
		return nil
	}
	if err := s.cutAll(ctx, files); err != nil {
		return err
	}
	var all []knowledge.Cut
	for i := range files {
		all = append(all, files[i].documents...)
	}
	twins, err := knowledge.Twins(all)
	if err != nil {
		return err
	}
	for _, t := range twins {
		for i := range files {
			f := &files[i]
			before := len(f.documents)
			f.documents = slices.DeleteFunc(f.documents, func(c knowledge.Cut) bool { return c.ID == t.Document })
			if len(f.documents) < before {
				f.skip, f.twin = new(folder.SameAs(t.Document, t.Same)), true
			}
		}
	}
	for i := range files {
		if err := s.add(ctx, &files[i]); err != nil {
			return err
		}
	}
	return nil
}

// cutAll reads and cuts files in parallel.
func (s *syncing) cutAll(ctx context.Context, files []cutFile) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(filesAtOnce)
	for i := range files {
		g.Go(func() error {
			s.cut(gctx, &files[i])
			return gctx.Err()
		})
	}
	return g.Wait()
}

// readAll reads files, and puts their documents in order.
func (s *syncing) readAll(ctx context.Context, files []cutFile) error {
	for part := range slices.Chunk(files, 4*filesAtOnce) {
		if err := s.cutAll(ctx, part); err != nil {
			return err
		}
		for i := range part {
			if err := s.add(ctx, &part[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// cut reads a file and cuts its documents.
func (s *syncing) cut(ctx context.Context, f *cutFile) {
	documents, skip := s.source.Read(ctx, f.name, s.Deps.PDF)
	f.skip = skip
	for _, d := range documents {
		if d.Key != "" && s.names[d.ID] { // of equal ids, that of a whole file wins
			f.skip, f.stamp = new(folder.Duplicate(d.ID)), ""
			continue
		}
		f.bytes += len(d.Text)
		d, notes := s.rules.Apply(f.name, d, s.times[f.name])
		f.notes = append(f.notes, notes...)
		cut, err := s.Deps.Cut(s.Base, d)
		if err != nil {
			f.skip = folder.TooLarge(d.ID, err)
			continue
		}
		f.documents = append(f.documents, cut)
	}
}

// add takes the documents of a file that was read.
func (s *syncing) add(ctx context.Context, f *cutFile) error {
	if f.skip != nil && (f.skip.Kind == folder.SkipUnreadable || f.skip.Kind == folder.SkipMemory) {
		s.keep(f.name)
		f.stamp = ""
	}
	chunks := 0
	for i := range f.documents {
		chunks += len(f.documents[i].Chunks)
	}
	s.account.Note(f.notes...)
	s.account.File(chunks, f.bytes, f.skip, f.twin || len(f.documents) > 0 || f.skip == nil)
	if f.name == "" {
		return s.enqueue(ctx, f)
	}
	delete(s.stamps, f.name)
	if s.skips[f.name] = f.skip; f.stamp != "" {
		s.stamps[f.name] = f.stamp
	}
	if f.skip != nil {
		f.stamp = "" // another process reads it again, to know why
	}
	return s.enqueue(ctx, f)
}

// enqueue adds the documents of a file to the batch, and writes it when it is full.
func (s *syncing) enqueue(ctx context.Context, f *cutFile) error {
	s.batch = append(s.batch, *f)
	waiting := 0
	for i := range s.batch {
		for j := range s.batch[i].documents {
			waiting += len(s.batch[i].documents[j].Chunks)
		}
	}
	if waiting < putChunks && len(s.batch) < putFiles {
		return nil
	}
	return s.put(ctx)
}
