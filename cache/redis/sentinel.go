package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	goredis "github.com/redis/go-redis/v9"
)

// A dial opens a connection.
type dial func(ctx context.Context, network, addr string) (net.Conn, error)

// Sentinels know where the master is. They are asked before each connection is
// made, and no news are awaited from them: those that become replicas are told
// to drop their clients. The library would ask as well, and end the process when
// a Sentinel answers with something else than an address.
type sentinels struct {
	o    *goredis.UniversalOptions
	dial dial
}

// dialMaster connects to the master, wherever it is.
func (s sentinels) dialMaster(ctx context.Context, network, _ string) (net.Conn, error) {
	addr, err := s.master(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask sentinels: %w", err)
	}
	return s.dial(ctx, network, addr)
}

// master returns the first address that any of them gives.
func (s sentinels) master(ctx context.Context) (string, error) {
	type answer struct {
		addr string
		err  error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer, len(s.o.Addrs))
	for _, sentinel := range s.o.Addrs {
		go func() {
			addr, err := s.ask(ctx, sentinel)
			answers <- answer{addr, err}
		}()
	}
	var errs []error
	for range s.o.Addrs {
		a := <-answers
		if a.err == nil {
			return a.addr, nil
		}
		errs = append(errs, a.err)
	}
	return "", errors.Join(errs...)
}

func (s sentinels) ask(ctx context.Context, sentinel string) (addr string, err error) {
	o := s.o.Simple()
	o.Addr, o.Dialer, o.DB = sentinel, s.dial, 0
	o.Username, o.Password = s.o.SentinelUsername, s.o.SentinelPassword
	o.PoolSize = 2 // after as many failed dials it would go on dialling by itself
	client := goredis.NewClient(o)
	defer func() { _ = client.Close() }()
	reply, err := client.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.o.MasterName).StringSlice()
	if err != nil {
		return "", err
	}
	if len(reply) != 2 {
		return "", errNoRedis
	}
	if _, err := strconv.ParseUint(reply[1], 10, 16); err != nil {
		return "", errNoRedis
	}
	return net.JoinHostPort(reply[0], reply[1]), nil
}
