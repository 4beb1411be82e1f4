package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// fetch gets one file over HTTP through the service and hashes it as it streams.
func fetch(ctx context.Context, o *options, res *result) error {
	network, err := open(o)
	if err != nil {
		return err
	}
	defer network.Close()
	client := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, network, o) },
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+o.service+o.path, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", o.path, resp.Status)
	}
	hash := sha256.New()
	res.Bytes, err = io.Copy(hash, resp.Body)
	if err != nil {
		return fmt.Errorf("after %d bytes: %w", res.Bytes, err)
	}
	if resp.ContentLength >= 0 && res.Bytes != resp.ContentLength {
		return fmt.Errorf("%d of %d bytes", res.Bytes, resp.ContentLength)
	}
	res.Sha256 = hex.EncodeToString(hash.Sum(nil))
	if o.sha != "" && o.sha != res.Sha256 {
		return fmt.Errorf("SHA-256 is %s, expected %s", res.Sha256, o.sha)
	}
	return nil
}

// storm opens o.n connections at once; each must get its own bytes back.
func storm(ctx context.Context, o *options, res *result) error {
	network, err := open(o)
	if err != nil {
		return err
	}
	defer network.Close()
	answers := make([]error, o.n)
	var wg, dialing sync.WaitGroup
	dialing.Add(o.n)
	for i := range answers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			conn, err := dial(ctx, network, o)
			dialing.Done()
			if err != nil {
				answers[i] = fmt.Errorf("dial: %w", err)
				return
			}
			defer conn.Close()
			if !o.halfClose {
				dialing.Wait() // for hosts that must not close while others open
			}
			answers[i] = roundTrip(ctx, conn, o.size, false, o.halfClose)
		}()
	}
	wg.Wait()
	res.Total = o.n
	var first error
	for _, err := range answers {
		if err == nil {
			res.Verified++
		} else if first == nil {
			first = err
		}
	}
	if first != nil {
		return fmt.Errorf("%d of %d failed, first: %w", res.Total-res.Verified, res.Total, first)
	}
	res.Bytes = int64(o.n) * int64(o.size)
	return nil
}

// halfClose sends, closes its sending side, pauses, and reads an answer that is
// longer than any window, to the end of the answer.
func halfClose(ctx context.Context, o *options, res *result) error {
	network, err := open(o)
	if err != nil {
		return err
	}
	defer network.Close()
	conn, err := dial(ctx, network, o)
	if err != nil {
		return fmt.Errorf("dial: %w", err)
	}
	defer conn.Close()
	res.Bytes = int64(o.size)
	return roundTrip(ctx, conn, o.size, true, true)
}

type writeCloser interface{ CloseWrite() error }

// roundTrip sends random bytes with their hash in front, half-closes (with half)
// and reads the echo to its end. With late, nothing is read before the half-close went out.
func roundTrip(ctx context.Context, conn net.Conn, size int, late, half bool) error {
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	body := make([]byte, size)
	if _, err := rand.Read(body); err != nil {
		return err
	}
	sum := sha256.Sum256(body)
	message := append(sum[:], body...)
	wrote := make(chan error, 1)
	send := func() {
		if _, err := conn.Write(message); err != nil {
			wrote <- fmt.Errorf("write: %w", err)
			return
		}
		if !half {
			wrote <- nil
			return
		}
		closer, ok := conn.(writeCloser)
		if !ok {
			wrote <- errors.New("connection cannot half-close")
			return
		}
		wrote <- closer.CloseWrite()
	}
	if late {
		send()
		time.Sleep(500 * time.Millisecond) // the answer must survive a quiet half-closed moment
	} else {
		go send()
	}
	source := io.Reader(conn)
	if !half {
		source = io.LimitReader(conn, int64(len(message)))
	}
	answer, err := io.ReadAll(source)
	if err != nil {
		return fmt.Errorf("read after %d of %d bytes: %w", len(answer), len(message), err)
	}
	if err := <-wrote; err != nil {
		return err
	}
	if !bytes.Equal(answer, message) {
		return fmt.Errorf("%d bytes came back, not the %d sent", len(answer), len(message))
	}
	return nil
}
