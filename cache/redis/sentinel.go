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

// sentinels find the master's address. They are asked before each connection is made. Their
// notifications are not needed, because a node that becomes a replica must drop its clients. The
// library's own Sentinel client is not used, since it ends the process if a Sentinel answers with
// anything but an address.
type sentinels struct {
	o    *goredis.UniversalOptions
	dial dial
}

// dialMaster connects to the current master.
func (s sentinels) dialMaster(ctx context.Context, network, _ string) (net.Conn, error) {
	addr, err := s.master(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask sentinels: %w", err)
	}
	return s.dial(ctx, network, addr)
}

// master asks all Sentinels at once and returns the first address received.
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
	o.PoolSize = 2 // after that many failed dials it would continue dialling in the background
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
