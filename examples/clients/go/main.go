// Calls the models of examples/functions over V2: a response, a stream, a stream that it leaves, an error.
// The package inference is what protoc makes of dataplane.proto, which the server serves at /proto.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"example/inference"
)

func number(name string, value int64) *inference.ModelInferRequest_InferInputTensor {
	return &inference.ModelInferRequest_InferInputTensor{
		Name: name, Datatype: "INT64", Shape: []int64{1},
		Contents: &inference.InferTensorContents{Int64Contents: []int64{value}},
	}
}

func text(name, value string) *inference.ModelInferRequest_InferInputTensor {
	return &inference.ModelInferRequest_InferInputTensor{
		Name: name, Datatype: "BYTES", Shape: []int64{1},
		Contents: &inference.InferTensorContents{BytesContents: [][]byte{[]byte(value)}},
	}
}

// words sends a prompt and calls each with every word, until it returns false.
func words(client inference.GRPCInferenceServiceClient, prompt string, each func(string) bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel() // leaving a stream ends the model's generator
	stream, err := client.ModelStreamInfer(ctx)
	if err != nil {
		return err
	}
	request := &inference.ModelInferRequest{
		ModelName: "words", Inputs: []*inference.ModelInferRequest_InferInputTensor{text("prompt", prompt)},
	}
	if err := stream.Send(request); err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	for {
		response, err := stream.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		word := string(response.Outputs[0].Contents.BytesContents[0])
		if !each(strings.TrimSpace(word)) {
			cancel()
		}
	}
}

func main() {
	address := "127.0.0.1:8081"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	connection, err := grpc.Dial(address, grpc.WithInsecure())
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	client := inference.NewGRPCInferenceServiceClient(connection)

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	response, err := client.ModelInfer(ctx, &inference.ModelInferRequest{
		ModelName: "add",
		Inputs:    []*inference.ModelInferRequest_InferInputTensor{number("a", 40), number("b", 2)},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("V2:", response.Outputs[0].Contents.Int64Contents[0])

	err = words(client, "What is the capital?", func(word string) bool {
		fmt.Println("word:", word)
		return true
	})
	if err != nil {
		log.Fatal(err)
	}

	err = words(client, "one two three four", func(word string) bool { return word != "two" })
	if status.Code(err) == codes.Canceled {
		fmt.Println("left after two words")
	}

	_, err = client.ModelInfer(ctx, &inference.ModelInferRequest{ModelName: "nobody"})
	fmt.Println("error:", status.Code(err))
}
