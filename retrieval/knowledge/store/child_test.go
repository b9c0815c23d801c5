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

// children are the functions that the test binary can run as a child process.
func children() map[string]func() error {
	return map[string]func() error{
		"hold":   holdFolder,
		"write":  writeScript,
		"limit":  meetLimit,
		"follow": followFolder,
		"backup": backUpFull,
	}
}

// holdFolder keeps the folder open until its input ends.
func holdFolder() error {
	s, err := store.Open(context.Background(), os.Getenv("DIR"), store.Options{Address: "127.0.0.1:8081"})
	if err != nil {
		return err
	}
	fmt.Println("open")
	_, _ = bufio.NewReader(os.Stdin).ReadString(0)
	return s.Close()
}

// followFolder prints what it sees in the folder once for each line that it reads.
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

// describe returns everything that a store holds in one line.
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

// dropRights changes the user id of a child of root to UID_OF_CHILD, if set.
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
