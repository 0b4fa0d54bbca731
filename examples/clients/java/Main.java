// Calls the models of examples/functions: a response, a stream, a stream that it leaves, V2 tensors, an error.
// The classes of inferstream.* and inference.* are what protoc makes of the files that the server serves at /proto.
import inference.Dataplane.InferTensorContents;
import inference.Dataplane.ModelInferRequest;
import inference.Dataplane.ModelInferRequest.InferInputTensor;
import inference.GRPCInferenceServiceGrpc;
import inferstream.AppGrpc;
import inferstream.Inferstream.AddRequest;
import inferstream.Inferstream.WordsRequest;
import inferstream.Inferstream.WordsResponse;
import io.grpc.Context;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.util.Iterator;
import java.util.concurrent.TimeUnit;

public final class Main {
  public static void main(String[] arguments) throws InterruptedException {
    String address = arguments.length > 0 ? arguments[0] : "127.0.0.1:8081";
    ManagedChannel channel = ManagedChannelBuilder.forTarget(address).usePlaintext().build();
    try {
      typed(channel);
      tensors(channel);
    } finally {
      channel.shutdownNow().awaitTermination(5, TimeUnit.SECONDS);
    }
  }

  // Typed RPCs: the arguments of a function are the fields of the request. Each call has a deadline.
  private static void typed(ManagedChannel channel) {
    AppGrpc.AppBlockingStub app = AppGrpc.newBlockingStub(channel);
    AddRequest sum = AddRequest.newBuilder().setA(41).build();
    System.out.println("add: " + app.withDeadlineAfter(10, TimeUnit.SECONDS).predictAdd(sum).getResult());

    WordsRequest question = WordsRequest.newBuilder().setPrompt("What is the capital?").build();
    Iterator<WordsResponse> words = app.withDeadlineAfter(10, TimeUnit.SECONDS).predictWords(question);
    while (words.hasNext()) {
      System.out.println("word: " + words.next().getResult().trim());
    }

    // Leaving a stream ends the model's generator.
    WordsRequest slow = WordsRequest.newBuilder().setPrompt("one two three four").setPause(0.2).build();
    try (Context.CancellableContext context = Context.current().withCancellation()) {
      context.run(() -> {
        Iterator<WordsResponse> some = app.predictWords(slow);
        try {
          while (some.hasNext()) {
            if (some.next().getResult().startsWith("two")) {
              context.cancel(null);
            }
          }
        } catch (StatusRuntimeException error) {
          if (error.getStatus().getCode() == Status.Code.CANCELLED) {
            System.out.println("left after two words");
          }
        }
      });
    }
  }

  // V2: any model, with tensors.
  private static void tensors(ManagedChannel channel) {
    GRPCInferenceServiceGrpc.GRPCInferenceServiceBlockingStub v2 =
        GRPCInferenceServiceGrpc.newBlockingStub(channel).withDeadlineAfter(10, TimeUnit.SECONDS);
    ModelInferRequest sum =
        ModelInferRequest.newBuilder()
            .setModelName("add")
            .addInputs(number("a", 40))
            .addInputs(number("b", 2))
            .build();
    System.out.println("V2: " + v2.modelInfer(sum).getOutputs(0).getContents().getInt64Contents(0));
    try {
      v2.modelInfer(ModelInferRequest.newBuilder().setModelName("nobody").build());
    } catch (StatusRuntimeException error) {
      System.out.println("error: " + error.getStatus().getCode());
    }
  }

  private static InferInputTensor number(String name, long value) {
    return InferInputTensor.newBuilder()
        .setName(name)
        .setDatatype("INT64")
        .addShape(1)
        .setContents(InferTensorContents.newBuilder().addInt64Contents(value))
        .build();
  }
}
