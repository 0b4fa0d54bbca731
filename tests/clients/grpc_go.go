// Calls an RPC through gRPC's client for Go with messages of bytes, and writes what it got as one line of JSON.
// The argument is JSON: the server's address, the path, whether the call is a stream, the messages in base64,
// the metadata, a time limit in seconds, and after how many responses to leave.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const most = 1 << 30

type order struct {
	Address, Path, Authority string
	Stream, Gzip             bool
	Messages                 [][]byte
	Metadata                 map[string]string
	Seconds                  float64
	LeaveAfter               int
}

type outcome struct {
	Responses [][]byte            `json:"responses"`
	Code      uint32              `json:"code"`
	Details   string              `json:"details"`
	Trailing  map[string][]string `json:"trailing"`
}

type octets struct{}

func (octets) Marshal(value interface{}) ([]byte, error) { return *value.(*[]byte), nil }
func (octets) Unmarshal(data []byte, value interface{}) error {
	*value.(*[]byte) = append([]byte{}, data...)
	return nil
}
func (octets) Name() string { return "proto" }

func main() {
	var asked order
	if err := json.Unmarshal([]byte(os.Args[1]), &asked); err != nil {
		panic(err)
	}
	security := grpc.WithInsecure()
	if asked.Authority != "" {
		trusted, err := credentials.NewClientTLSFromFile(asked.Authority, "localhost")
		if err != nil {
			panic(err)
		}
		security = grpc.WithTransportCredentials(trusted)
	}
	connection, err := grpc.Dial(asked.Address, security)
	if err != nil {
		panic(err)
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(asked.Seconds*float64(time.Second)))
	defer cancel()
	ctx = metadata.NewOutgoingContext(ctx, metadata.New(asked.Metadata))
	found := outcome{Responses: [][]byte{}}
	var trailing metadata.MD
	options := []grpc.CallOption{grpc.ForceCodec(octets{}), grpc.Trailer(&trailing), grpc.MaxCallRecvMsgSize(most)}
	if asked.Gzip {
		options = append(options, grpc.UseCompressor(gzip.Name))
	}
	if asked.Stream {
		err = stream(ctx, cancel, connection, asked, options, &found)
	} else {
		var response []byte
		if err = connection.Invoke(ctx, asked.Path, &asked.Messages[0], &response, options...); err == nil {
			found.Responses = append(found.Responses, response)
		}
	}
	found.Code, found.Details = uint32(status.Code(err)), status.Convert(err).Message()
	found.Trailing = trailing
	line, err := json.Marshal(found)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

func stream(ctx context.Context, cancel func(), connection *grpc.ClientConn, asked order, options []grpc.CallOption, found *outcome) error {
	both := grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
	call, err := connection.NewStream(ctx, &both, asked.Path, options...)
	if err != nil {
		return err
	}
	for place := range asked.Messages {
		if err = call.SendMsg(&asked.Messages[place]); err != nil {
			break // the status comes with the next response
		}
	}
	if err = call.CloseSend(); err != nil {
		return err
	}
	for {
		var response []byte
		if err = call.RecvMsg(&response); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		found.Responses = append(found.Responses, response)
		if len(found.Responses) == asked.LeaveAfter {
			cancel()
		}
	}
}
