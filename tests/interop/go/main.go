// Does with Go's lock libraries what tests/interop.rs says, one line each way.
//
//	Usage: interop URL...
//	try LIBRARY KEY TTL_MS -> held | busy | error WHY
//	release                -> released | error WHY
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	driver "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// Gives back what was taken.
type release func(context.Context) error

var errBusy = errors.New("busy")

func main() {
	var clients []*redis.Client
	for _, url := range os.Args[1:] {
		options, err := redis.ParseURL(url)
		if err != nil {
			panic(err)
		}
		clients = append(clients, redis.NewClient(options))
	}
	var held release
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		fmt.Println(answer(clients, &held, strings.Fields(lines.Text())))
	}
}

func answer(clients []*redis.Client, held *release, words []string) string {
	if words[0] == "release" {
		if err := (*held)(context.Background()); err != nil {
			return "error " + err.Error()
		}
		return "released"
	}
	ms, err := strconv.Atoi(words[3])
	if err != nil {
		return "error " + err.Error()
	}
	libraries := map[string]func([]*redis.Client, string, time.Duration) (release, error){
		"redsync":       tryRedsync,
		"bsm/redislock": tryRedislock,
	}
	release, err := libraries[words[1]](clients, words[2], time.Duration(ms)*time.Millisecond)
	switch {
	case errors.Is(err, errBusy):
		return "busy"
	case err != nil:
		return "error " + err.Error()
	}
	*held = release
	return "held"
}

func tryRedsync(clients []*redis.Client, key string, ttl time.Duration) (release, error) {
	var pools []driver.Pool
	for _, client := range clients {
		pools = append(pools, goredis.NewPool(client))
	}
	locks := redsync.New(pools...)
	mutex := locks.NewMutex(key, redsync.WithExpiry(ttl), redsync.WithTries(1))
	err := mutex.TryLock()
	var taken *redsync.ErrTaken
	if errors.As(err, &taken) {
		return nil, errBusy
	}
	return func(ctx context.Context) error {
		_, err := mutex.UnlockContext(ctx)
		return err
	}, err
}

func tryRedislock(clients []*redis.Client, key string, ttl time.Duration) (release, error) {
	lock, err := redislock.Obtain(context.Background(), clients[0], key, ttl, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return nil, errBusy
	}
	return func(ctx context.Context) error { return lock.Release(ctx) }, err
}
