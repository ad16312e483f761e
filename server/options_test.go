package server_test

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/longwire/longwire/server"
)

// numbers are the numeric options, those of Log and Admission included, by name.
func numbers(o *server.Options) map[string]reflect.Value {
	all := make(map[string]reflect.Value)
	for prefix, v := range map[string]reflect.Value{
		"Options.": reflect.ValueOf(o).Elem(), "Options.Admission.": reflect.ValueOf(&o.Admission).Elem(), "Limits.": reflect.ValueOf(&o.Log).Elem(),
	} {
		for i := range v.NumField() {
			if f := v.Field(i); f.CanInt() || f.CanFloat() {
				all[prefix+v.Type().Field(i).Name] = f
			}
		}
	}
	return all
}

func TestEveryNumberOutOfRangeIsNamed(t *testing.T) {
	for name, probe := range numbers(new(server.Options)) {
		bad := []float64{-1, -0.5, math.NaN(), math.Inf(1), math.Inf(-1)}
		if probe.CanInt() {
			bad = []float64{-1, -1e9}
		}
		for _, value := range bad {
			var o server.Options
			if f := numbers(&o)[name]; f.CanInt() {
				f.SetInt(int64(value))
			} else {
				f.SetFloat(value)
			}
			_, err := server.New(o)
			if err == nil || !strings.Contains(err.Error(), name+":") && !strings.Contains(err.Error(), name+" ") {
				t.Errorf("%s: %v: got %v, want an error that names it", name, value, err)
			}
		}
	}
}

// The largest and the smallest of each number is an error or it works: no overflow
// turns it into nothing, or into a loop.
func TestEveryNumberAtItsEdge(t *testing.T) {
	for name, probe := range numbers(new(server.Options)) {
		edges := []float64{math.MaxFloat64, 1e19, math.SmallestNonzeroFloat64}
		if probe.CanInt() {
			edges = []float64{0x1p62, 1}
		}
		for _, value := range edges {
			t.Run(fmt.Sprint(name, "=", value), func(t *testing.T) {
				var o server.Options
				if f := numbers(&o)[name]; f.CanInt() {
					f.SetInt(int64(value))
				} else {
					f.SetFloat(value)
				}
				if _, err := server.New(o); err != nil {
					if !strings.Contains(err.Error(), name) {
						t.Errorf("got %v, want an error that names it", err)
					}
					return
				}
				inWorld(t, o, func(t *testing.T, w *world) {
					c := w.join("ann", `"subs":{"s":{}}`)
					w.publish("s", `1`)
					c.expect(event("s", 1, `1`))
					time.Sleep(time.Second)
					synctest.Wait()
					if frames := w.srv.Stats().Frames; frames > 200 {
						t.Errorf("%d frames in a second", frames)
					}
				})
			})
		}
	}
}
