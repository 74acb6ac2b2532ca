// Command filters asks kube-scheduler's own filter plugins where a pod may run.
//
// Each line of standard input is a case, {"objects": [...], "pod": {...}}: the objects of a
// cluster and a pod that is not bound yet, as manifests. Each line of standard output is the
// answer to the case of the same number, {"feasible": [...], "refused": {node: plugin: reasons}}.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"k8s.io/klog/v2"
)

func main() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "filters:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	judge, err := newJudge(context.Background())
	if err != nil {
		return err
	}
	lines := bufio.NewReaderSize(in, 1<<20)
	answers := json.NewEncoder(out)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			answer, err := judge.answer(line)
			if err != nil {
				answer = &Answer{Error: err.Error()}
			}
			if err := answers.Encode(answer); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
