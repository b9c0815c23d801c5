//go:build unix

package store_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"sidenote/retrieval/knowledge/store"
)

// children are the lives that the test binary can lead.
func children() map[string]func() error {
	return map[string]func() error{
		"hold":   holdFolder,
		"write":  writeScript,
		"limit":  meetLimit,
		"follow": followFolder,
	}
}

// holdFolder holds the folder until its input ends.
func holdFolder() error {
	s, err := store.Open(context.Background(), os.Getenv("DIR"), store.Options{Address: "127.0.0.1:8081"})
	if err != nil {
		return err
	}
	fmt.Println("open")
	_, _ = bufio.NewReader(os.Stdin).ReadString(0)
	return s.Close()
}

// followFolder says what it sees of the folder once for each line that it reads.
func followFolder() error {
	if err := dropRights(); err != nil {
		return err
	}
	s, err := store.OpenReadOnly(context.Background(), os.Getenv("DIR"))
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		text, err := describe(s)
		if err != nil {
			return errors.Join(err, s.Close())
		}
		fmt.Println(text)
	}
	return s.Close()
}

// describe puts all that a store holds into a line.
func describe(s *store.Store) (string, error) {
	ctx := context.Background()
	version, err := s.Version(ctx)
	if err != nil {
		return "", err
	}
	bases, err := s.Bases(ctx)
	if err != nil {
		return "", err
	}
	out := []string{fmt.Sprintf("version %d", version)}
	for _, b := range bases {
		out = append(out, b.ID)
		documents, err := entries(ctx, s, b.ID)
		if err != nil {
			return "", err
		}
		for _, d := range documents {
			for i, c := range d.Chunks {
				out = append(out, fmt.Sprintf("%s/%d=%s", d.ID, i, strings.Fields(c.Text)[3]))
			}
		}
		list, _, err := segments(ctx, s, b.ID)
		if err != nil {
			return "", err
		}
		for _, seg := range list {
			image, err := s.Image(ctx, seg)
			if err != nil {
				return "", err
			}
			out = append(out, string(image))
		}
	}
	return strings.Join(out, " "), nil
}

// dropRights makes a child of root somebody else, where UID_OF_CHILD says whom.
func dropRights() error {
	uid, err := strconv.Atoi(os.Getenv("UID_OF_CHILD"))
	if err != nil {
		return nil
	}
	if err := syscall.Setgroups(nil); err != nil {
		return err
	}
	if err := syscall.Setgid(uid); err != nil {
		return err
	}
	return syscall.Setuid(uid)
}
