package server

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// stateFile is where this run saves its state.
//
// A file must be used at most once, and only if nothing ran since it was written:
// a numbering that two runs carry on gives one number to two events. Therefore
// each run has a name, which the marker file holds from before anything can
// connect, and a file counts only if it is of the run in the marker.
type stateFile struct {
	path   string
	run    string
	saving sync.Mutex // held while the file is written
}

func (f *stateFile) mark(w io.Writer) error {
	_, err := io.WriteString(w, f.run+"\n")
	return err
}

// What is put behind Options.StateFile.
const (
	markerSuffix  = ".run"     // names the last run
	usedSuffix    = ".used"    // was taken over
	refusedSuffix = ".refused" // was not
)

var (
	errNoMarker = errors.New("no marker file says which run wrote it")
	errOtherRun = errors.New("it is not of the last run: it is an old one, or that run did not save")
	errTaken    = errors.New("another process took it at the same time")
)

// openState makes this run the one that may save, and takes over what the last one
// has saved. A file that is not taken over is no error; that the next one could not
// be told from it is.
func (m *memoryStore) openState(file string) error {
	path, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	marker, err := os.ReadFile(path + markerSuffix)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	found, loaded, refused, err := m.findState(path, string(bytes.TrimSpace(marker)))
	if err != nil {
		return err
	}
	m.state = &stateFile{path: path, run: rand.Text()}
	// From here on nobody can use the file again, even if we go no further.
	if err = writeFile(path+markerSuffix, m.state.mark); err != nil {
		return err
	}
	switch {
	case found && refused == nil:
		refused, err = claim(path, loaded.end)
	case found:
		err = moveAside(path, refusedSuffix)
	case len(marker) > 0:
		m.opts.Logger.Warn("longwire: the last run has saved no state: streams begin anew, so each client gets a snapshot", "file", path)
	}
	if err != nil {
		return err
	}
	if refused != nil {
		m.opts.Logger.Error("longwire: saved state is refused: streams begin anew, so each client gets a snapshot, "+
			"and the outcome of messages that had no answer yet is unknown", "file", path, "reason", refused)
		return nil
	}
	if found {
		m.install(loaded)
	}
	return nil
}

// findState reads the file of the run that the marker names. refused says why it is
// not to be used; err that it should not even be moved.
func (m *memoryStore) findState(path, marker string) (found bool, loaded *loadedState, refused, err error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil, nil, nil
	case err != nil:
		return false, nil, nil, err
	case !info.Mode().IsRegular():
		return false, nil, nil, fmt.Errorf("%s: is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return false, nil, nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	if marker == "" {
		return true, nil, errNoMarker, nil
	}
	loaded, refused = m.readState(f, info.Size(), marker, time.Now())
	return true, loaded, refused, nil
}

// claim moves the file away and reports, as refused, when it is not the one with
// that end any more: only one of several processes gets it.
func claim(path, end string) (refused, err error) {
	err = moveAside(path, usedSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return errTaken, nil
	}
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path + usedSuffix)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if moved, err := readEnd(f, info.Size()); err != nil || moved != end {
		return errTaken, nil
	}
	return nil, nil
}

func moveAside(path, suffix string) error {
	if err := os.Rename(path, path+suffix); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// writeFile puts a file in place that is complete and on the disk, or leaves what
// was there. Nobody but the owner may read it.
func writeFile(path string, write func(io.Writer) error) (err error) {
	temp := path + ".tmp"
	// One that an earlier run left: it may have another mode, or be a link.
	if err = os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temp) // as far as that goes
		}
	}()
	w := bufio.NewWriterSize(f, 64<<10)
	err = write(w)
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = os.Rename(temp, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes a rename survive a loss of power, where the system can.
func syncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil // a directory cannot be synced there
	}
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) {
		err = nil // nor on some file systems
	}
	return errors.Join(err, d.Close())
}
