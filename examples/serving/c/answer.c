/* Answers texts by an exported model, without Python: TensorFlow's C library loads it as TF Serving does.

     answer MODEL SIGNATURE THREADS [OPS.so ...] < texts.txt

   MODEL is a folder such as OUT/serving/1, and OPS.so are the libraries of TensorFlow Text's ops. Each line of
   the input is a text, and a request of one row; so many threads send requests at the same time. Each line of the
   output has the answers of one text as JSON, in the order of the input. The model's warm-up requests are
   answered first. README.md beside this file says how it is compiled. */

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tensorflow/c/c_api.h>

#define MAX_TENSORS 16  /* of a signature */
#define MAX_NAME 256

static TF_Graph *graph;
static TF_Session *session;

static void fail(const char *what, const char *why) {
  fprintf(stderr, "answer: %s: %s\n", what, why);
  exit(1);
}

static void check(const char *what, const TF_Status *status) {
  if (TF_GetCode(status) != TF_OK) fail(what, TF_Message(status));
}

static void *allocate(size_t bytes) {
  void *found = calloc(1, bytes ? bytes : 1);
  if (!found) fail("memory", "there is no more");
  return found;
}

/* Protocol buffers, as far as signatures and requests need them: a message is a row of numbered fields. */

typedef struct {
  const uint8_t *at, *end;
} Bytes;

typedef struct {
  uint64_t number, value; /* the value of a number; of a text or a message it is in bytes */
  Bytes bytes;
} Field;

static uint64_t read_varint(Bytes *message) {
  uint64_t value = 0;
  for (int shift = 0; message->at < message->end && shift < 64; shift += 7) {
    uint8_t byte = *message->at++;
    value |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) return value;
  }
  fail("protocol buffer", "is cut off");
  return 0;
}

/* The next field of a message; 0 at its end. */
static int next_field(Bytes *message, Field *field) {
  if (message->at >= message->end) return 0;
  uint64_t tag = read_varint(message), size;
  field->number = tag >> 3;
  switch (tag & 7) {
    case 0: field->value = read_varint(message); return 1;
    case 1: size = 8; break;
    case 2: size = read_varint(message); break;
    case 5: size = 4; break;
    default: fail("protocol buffer", "has a field of an unknown kind"); return 0;
  }
  if (size > (uint64_t)(message->end - message->at)) fail("protocol buffer", "is cut off");
  field->bytes = (Bytes){message->at, message->at + size};
  message->at += size;
  return 1;
}

/* The field of that number, the last if there are several: an empty one if there is none. */
static Field field_of(Bytes message, uint64_t number) {
  Field field, found = {number, 0, {NULL, NULL}};
  while (next_field(&message, &field))
    if (field.number == number) found = field;
  return found;
}

static int equals(Bytes text, const char *other) {
  size_t size = strlen(other);
  return (size_t)(text.end - text.at) == size && !memcmp(text.at, other, size);
}

static void copy_text(Bytes text, char *copy) {
  size_t size = (size_t)(text.end - text.at);
  if (size >= MAX_NAME) fail("a name", "is too long");
  memcpy(copy, text.at, size);
  copy[size] = 0;
}

/* The file, whole. */
static Bytes read_file(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) return (Bytes){NULL, NULL};
  fseek(file, 0, SEEK_END);
  long size = ftell(file);
  rewind(file);
  uint8_t *content = allocate((size_t)size);
  if (fread(content, 1, (size_t)size, file) != (size_t)size) fail(path, "cannot be read");
  fclose(file);
  return (Bytes){content, content + size};
}

/* Signatures: names of tensors by the names that users know. */

typedef struct {
  int count;
  char names[MAX_TENSORS][MAX_NAME];
  TF_Output outputs[MAX_TENSORS];
} Tensors;

typedef struct {
  Tensors inputs, outputs;
} Signature;

/* The fields of SignatureDef: 1 inputs, 2 outputs, maps of TensorInfo, whose field 1 is like "name:0". */
static void read_tensors(Bytes signature, uint64_t number, Tensors *tensors) {
  Field entry;
  while (next_field(&signature, &entry)) {
    if (entry.number != number) continue;
    if (tensors->count == MAX_TENSORS) fail("signature", "has too many tensors");
    char name[MAX_NAME];
    copy_text(field_of(field_of(entry.bytes, 2).bytes, 1).bytes, name);
    char *colon = strrchr(name, ':');
    if (!colon) continue;
    *colon = 0;
    TF_Output *output = &tensors->outputs[tensors->count];
    *output = (TF_Output){TF_GraphOperationByName(graph, name), atoi(colon + 1)};
    if (!output->oper) fail(name, "is not in the graph");
    copy_text(field_of(entry.bytes, 1).bytes, tensors->names[tensors->count++]);
  }
}

/* A MetaGraphDef's field 5 is the map of its signatures. */
static Signature *read_signature(Bytes meta_graph, Bytes name) {
  Field entry;
  while (next_field(&meta_graph, &entry)) {
    if (entry.number != 5) continue;
    Bytes key = field_of(entry.bytes, 1).bytes;
    if (key.end - key.at != name.end - name.at || memcmp(key.at, name.at, (size_t)(key.end - key.at))) continue;
    Signature *signature = allocate(sizeof(Signature));
    read_tensors(field_of(entry.bytes, 2).bytes, 1, &signature->inputs);
    read_tensors(field_of(entry.bytes, 2).bytes, 2, &signature->outputs);
    return signature;
  }
  char asked[MAX_NAME];
  copy_text(name, asked);
  fail(asked, "the model has no such signature");
  return NULL;
}

/* Tensors. */

static TF_Tensor *new_tensor(TF_DataType type, const int64_t *shape, int rank, int64_t items) {
  size_t size = type == TF_STRING ? sizeof(TF_TString) : TF_DataTypeSize(type);
  TF_Tensor *tensor = TF_AllocateTensor(type, shape, rank, size * (size_t)items);
  if (!tensor) fail("memory", "there is no more");
  TF_TString *texts = type == TF_STRING ? TF_TensorData(tensor) : NULL;
  for (int64_t item = 0; texts && item < items; item++) TF_StringInit(&texts[item]);
  return tensor;
}

/* Of a TensorProto: 1 type, 2 shape, 4 all bytes, 7 int32 numbers, 8 texts. */
static TF_Tensor *read_tensor(Bytes proto) {
  int64_t shape[8], items = 1;
  int rank = 0;
  Field field;
  Bytes dimensions = field_of(proto, 2).bytes;
  while (next_field(&dimensions, &field)) {
    if (rank == 8) fail("warm-up request", "has a tensor of too many dimensions");
    items *= shape[rank++] = (int64_t)field_of(field.bytes, 1).value;
  }
  TF_DataType type = (TF_DataType)field_of(proto, 1).value;
  if (type != TF_STRING && type != TF_INT32) fail("warm-up request", "has a tensor that is no text and no int32");
  TF_Tensor *tensor = new_tensor(type, shape, rank, items);
  Bytes whole = field_of(proto, 4).bytes, numbers = field_of(proto, 7).bytes;
  if (type == TF_INT32) {
    int32_t *data = TF_TensorData(tensor), last = 0;
    if (whole.at) memcpy(data, whole.at, TF_TensorByteSize(tensor));
    for (int64_t item = 0; !whole.at && item < items; item++) /* the last number stands for those left out */
      data[item] = last = numbers.at < numbers.end ? (int32_t)read_varint(&numbers) : last;
  } else {
    int64_t item = 0;
    while (item < items && next_field(&proto, &field))
      if (field.number == 8)
        TF_StringAssignView((TF_TString *)TF_TensorData(tensor) + item++, (const char *)field.bytes.at,
                            (size_t)(field.bytes.end - field.bytes.at)); /* the file outlives the tensor */
  }
  return tensor;
}

static void print_text(FILE *file, const char *text, size_t size) {
  fputc('"', file);
  for (size_t at = 0; at < size; at++) {
    unsigned char byte = (unsigned char)text[at];
    if (byte == '"' || byte == '\\') fprintf(file, "\\%c", byte);
    else if (byte < 0x20) fprintf(file, "\\u%04x", byte);
    else fputc(byte, file);
  }
  fputc('"', file);
}

/* The items of a tensor in one list; nine digits are enough to tell every float32. */
static void print_tensor(FILE *file, const TF_Tensor *tensor) {
  const void *data = TF_TensorData(tensor);
  fputc('[', file);
  for (int64_t item = 0; item < TF_TensorElementCount(tensor); item++) {
    if (item) fputs(", ", file);
    switch (TF_TensorType(tensor)) {
      case TF_FLOAT: fprintf(file, "%.9g", ((const float *)data)[item]); break;
      case TF_INT32: fprintf(file, "%" PRId32, ((const int32_t *)data)[item]); break;
      case TF_BOOL: fputs(((const unsigned char *)data)[item] ? "true" : "false", file); break;
      case TF_STRING: {
        const TF_TString *text = (const TF_TString *)data + item;
        print_text(file, TF_StringGetDataPointer(text), TF_StringGetSize(text));
        break;
      }
      default: fail("an output", "is no text, float32, int32 or bool");
    }
  }
  fputc(']', file);
}

/* Requests. */

static void run(const Signature *signature, TF_Tensor **inputs, TF_Tensor **outputs) {
  TF_Status *status = TF_NewStatus();
  TF_SessionRun(session, NULL, signature->inputs.outputs, inputs, signature->inputs.count,
                signature->outputs.outputs, outputs, signature->outputs.count, NULL, 0, NULL, status);
  check("request", status);
  TF_DeleteStatus(status);
}

/* The warm-up file: records of size, checksum, PredictionLog, checksum. Field 6 of a log is a PredictLog,
   whose field 1 is a request: 1 the model's, whose field 3 is the signature, and 2 the map of inputs. */
static int warm_up(const char *model, Bytes meta_graph) {
  char path[4096];
  snprintf(path, sizeof path, "%s/assets.extra/tf_serving_warmup_requests", model);
  Bytes file = read_file(path);
  int count = 0;
  for (; file.end - file.at >= 12; count++) {
    uint64_t size;
    memcpy(&size, file.at, 8);
    if (size + 16 > (uint64_t)(file.end - file.at)) fail(path, "is cut off");
    Bytes log = {file.at + 12, file.at + 12 + size};
    file.at += size + 16;
    Bytes request = field_of(field_of(log, 6).bytes, 1).bytes;
    Signature *signature = read_signature(meta_graph, field_of(field_of(request, 1).bytes, 3).bytes);
    TF_Tensor *inputs[MAX_TENSORS] = {NULL}, *outputs[MAX_TENSORS] = {NULL};
    Field entry;
    while (next_field(&request, &entry))
      for (int at = 0; entry.number == 2 && at < signature->inputs.count; at++)
        if (equals(field_of(entry.bytes, 1).bytes, signature->inputs.names[at]))
          inputs[at] = read_tensor(field_of(entry.bytes, 2).bytes);
    for (int at = 0; at < signature->inputs.count; at++)
      if (!inputs[at]) fail(signature->inputs.names[at], "a warm-up request has no such input");
    run(signature, inputs, outputs);
    for (int at = 0; at < signature->inputs.count; at++) TF_DeleteTensor(inputs[at]);
    for (int at = 0; at < signature->outputs.count; at++) TF_DeleteTensor(outputs[at]);
    free(signature);
  }
  return count;
}

/* Texts, which threads take one after the other. */

static const Signature *asked;
static char **texts, **answers;
static size_t text_count, next_text;
static pthread_mutex_t taking = PTHREAD_MUTEX_INITIALIZER;

static void answer(size_t number) {
  const int64_t one = 1;
  TF_Tensor *input = new_tensor(TF_STRING, &one, 1, 1), *outputs[MAX_TENSORS] = {NULL};
  TF_StringAssignView(TF_TensorData(input), texts[number], strlen(texts[number])); /* which outlives it */
  run(asked, &input, outputs);
  size_t size;
  FILE *line = open_memstream(&answers[number], &size);
  if (!line) fail("memory", "there is no more");
  for (int at = 0; at < asked->outputs.count; at++) {
    fprintf(line, "%s\"%s\": ", at ? ", " : "{", asked->outputs.names[at]);
    print_tensor(line, outputs[at]);
    TF_DeleteTensor(outputs[at]);
  }
  fputc('}', line);
  fclose(line);
  TF_DeleteTensor(input);
}

static void *work(void *unused) {
  (void)unused;
  for (;;) {
    pthread_mutex_lock(&taking);
    size_t number = next_text++;
    pthread_mutex_unlock(&taking);
    if (number >= text_count) return NULL;
    answer(number);
  }
}

static void read_texts(void) {
  char *line = NULL;
  size_t room = 0, places = 0;
  for (ssize_t size; (size = getline(&line, &room, stdin)) >= 0;) {
    if (size && line[size - 1] == '\n') line[size - 1] = 0;
    if (text_count == places) texts = realloc(texts, (places = 2 * places + 1024) * sizeof *texts);
    if (!texts || !(texts[text_count++] = strdup(line))) fail("memory", "there is no more");
  }
  free(line);
  answers = allocate(text_count * sizeof *answers);
}

int main(int count, char **words) {
  if (count < 4 || atoi(words[3]) < 1 || atoi(words[3]) > 64) {
    fputs("usage: answer MODEL SIGNATURE THREADS [OPS.so ...] < texts.txt, with 1 to 64 threads\n", stderr);
    return 2;
  }
  TF_Status *status = TF_NewStatus();
  for (int at = 4; at < count; at++) {
    TF_LoadLibrary(words[at], status);
    check(words[at], status);
  }
  graph = TF_NewGraph();
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_Buffer *buffer = TF_NewBuffer();
  const char *tags[] = {"serve"};
  session = TF_LoadSessionFromSavedModel(options, NULL, words[1], tags, 1, graph, buffer, status);
  check(words[1], status);
  Bytes meta_graph = {buffer->data, (const uint8_t *)buffer->data + buffer->length};
  const uint8_t *name = (const uint8_t *)words[2];
  asked = read_signature(meta_graph, (Bytes){name, name + strlen(words[2])});
  if (asked->inputs.count != 1) fail(words[2], "takes more than one text");
  fprintf(stderr, "%d warm-up requests answered\n", warm_up(words[1], meta_graph));

  read_texts();
  int thread_count = atoi(words[3]);
  pthread_t threads[64];
  for (int at = 0; at < thread_count; at++)
    if (pthread_create(&threads[at], NULL, work, NULL)) fail("thread", "cannot be started");
  for (int at = 0; at < thread_count; at++) pthread_join(threads[at], NULL);
  for (size_t number = 0; number < text_count; number++) puts(answers[number]);
  return 0;
}
