// Does with etcd's own lock package what tests/interop.rs says, one line each way.
//
//	Usage: etcd ENDPOINTS
//	try LIBRARY NAME TTL_S     -> held | busy | error WHY
//	acquire LIBRARY NAME TTL_S -> held | error WHY, when it is so
//	release                    -> released | error WHY
//
// LIBRARY is mutex, or election, whose candidate is called "go".
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// Gives back what was taken.
type release func(context.Context) error

func main() {
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(os.Args[1], ",")})
	if err != nil {
		panic(err)
	}
	var held release
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		fmt.Println(answer(client, &held, strings.Fields(lines.Text())))
	}
}

func answer(client *clientv3.Client, held *release, words []string) string {
	ctx := context.Background()
	if words[0] == "release" {
		if err := (*held)(ctx); err != nil {
			return "error " + err.Error()
		}
		return "released"
	}
	ttl, err := strconv.Atoi(words[3])
	if err != nil {
		return "error " + err.Error()
	}
	session, err := concurrency.NewSession(client, concurrency.WithTTL(ttl))
	if err != nil {
		return "error " + err.Error()
	}
	give, err := take(ctx, session, words)
	if err != nil {
		session.Close()
		if errors.Is(err, concurrency.ErrLocked) {
			return "busy"
		}
		return "error " + err.Error()
	}
	*held = func(ctx context.Context) error {
		defer session.Close()
		return give(ctx)
	}
	return "held"
}

func take(ctx context.Context, session *concurrency.Session, words []string) (release, error) {
	if words[1] == "election" {
		election := concurrency.NewElection(session, words[2])
		return election.Resign, election.Campaign(ctx, "go")
	}
	mutex := concurrency.NewMutex(session, words[2])
	if words[0] == "try" {
		return mutex.Unlock, mutex.TryLock(ctx)
	}
	return mutex.Unlock, mutex.Lock(ctx)
}
