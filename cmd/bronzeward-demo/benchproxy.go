package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"

	"github.com/siderolabs/grpc-proxy/proxy"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// Flow-control windows of talosctl and of Talos's own proxy; every client, the bare proxy
// and Bronzeward have them.
const (
	benchWindow     = 32 * 65535
	benchConnWindow = 16 * 65535
)

// benchProxy is the yardstick: Talos's own proxy library, one to one, TLS on both sides,
// nothing judged and nothing written. It prints its address and serves until ctx ends.
func benchProxy(ctx context.Context, args []string) error {
	var upstream, cert, key, ca, serverCert, serverKey string
	flags := flag.NewFlagSet("bench-proxy", flag.ContinueOnError)
	flags.StringVar(&upstream, "upstream", "", "address of the node")
	flags.StringVar(&cert, "cert", "", "PEM file of the client certificate shown to the node")
	flags.StringVar(&key, "key", "", "PEM file of its key")
	flags.StringVar(&ca, "ca", "", "PEM file of the Talos authority: signs the node and the proxy's own clients")
	flags.StringVar(&serverCert, "server-cert", "", "PEM file of the proxy's own certificate")
	flags.StringVar(&serverKey, "server-key", "", "PEM file of its key")
	if err := flags.Parse(args); err != nil {
		return err
	}
	client, err := benchTLS(cert, key, ca)
	if err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(serverCert, serverKey)
	if err != nil {
		return fmt.Errorf("reading the proxy's certificate: %w", err)
	}
	conn, err := grpc.NewClient("passthrough:///"+upstream, benchDialOptions(client, grpc.ForceCodecV2(proxy.Codec()))...)
	if err != nil {
		return err
	}
	defer conn.Close()
	backend := &proxy.SingleBackend{GetConn: func(ctx context.Context) (context.Context, *grpc.ClientConn, error) {
		return ctx, conn, nil
	}}
	director := func(context.Context, string) (proxy.Mode, []proxy.Backend, error) {
		return proxy.One2One, []proxy.Backend{backend}, nil
	}
	server := grpc.NewServer(
		grpc.Creds(credentials.NewTLS(&tls.Config{
			MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}, Certificates: []tls.Certificate{pair},
			ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: client.RootCAs,
		})),
		grpc.ForceServerCodecV2(proxy.Codec()),
		grpc.UnknownServiceHandler(proxy.TransparentHandler(director)),
		grpc.MaxRecvMsgSize(benchMaxMessage), grpc.MaxSendMsgSize(benchMaxMessage),
		grpc.InitialWindowSize(benchWindow), grpc.InitialConnWindowSize(benchWindow),
	)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	stop := context.AfterFunc(ctx, server.Stop)
	defer stop()
	if err := server.Serve(listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// benchMaxMessage is Talos's own limit, in bytes.
const benchMaxMessage = 32 << 20

// benchTLS is a client of the Talos API, from PEM files.
func benchTLS(cert, key, ca string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("reading the client certificate: %w", err)
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("reading the authority: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", ca)
	}
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS13}, nil
}

// benchDialOptions are talosctl's own.
func benchDialOptions(cfg *tls.Config, codec grpc.CallOption) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithTransportCredentials(credentials.NewTLS(cfg)),
		grpc.WithInitialWindowSize(benchWindow), grpc.WithInitialConnWindowSize(benchConnWindow),
		grpc.WithDefaultCallOptions(codec, grpc.MaxCallRecvMsgSize(benchMaxMessage), grpc.MaxCallSendMsgSize(benchMaxMessage)),
	}
}
