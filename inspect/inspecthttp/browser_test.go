// SPDX-License-Identifier: Apache-2.0

package inspecthttp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// browser is a page in a headless Chromium, which is driven by the DevTools protocol: JSON with a zero byte at the end, on two pipes. One
// goroutine uses it.
type browser struct {
	tb      testing.TB
	to      *os.File
	from    *os.File
	replies *bufio.Reader // reads from
	session string
	calls   int
	events  []string // the methods of the events since the last call of navigate
	said    []string // what the page and the browser complained of
}

// openBrowser starts a browser for the test. The test is skipped if there is none.
func openBrowser(t *testing.T) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium-headless-shell")
	if err != nil && os.Getenv("SIGNALBOX_SCREENS") != "required" {
		t.Skip("chromium-headless-shell is not installed; make screens installs it")
	}
	require.NoError(t, err)
	redistest.Slow(t, "a browser takes seconds to start")
	commands, to, err := os.Pipe()
	require.NoError(t, err)
	from, replies, err := os.Pipe()
	require.NoError(t, err)
	cmd := exec.Command(path, "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--user-data-dir="+t.TempDir(), "--remote-debugging-pipe")
	cmd.ExtraFiles = []*os.File{commands, replies} // 3 and 4
	require.NoError(t, cmd.Start())
	require.NoError(t, commands.Close())
	require.NoError(t, replies.Close())
	t.Cleanup(func() {
		_ = to.Close() // it ends
		_ = cmd.Wait()
		_ = from.Close()
	})
	b := &browser{tb: t, to: to, from: from, replies: bufio.NewReader(from)}
	var target struct{ TargetID string }
	b.call(&target, "Target.createTarget", `{"url":"about:blank"}`)
	var attached struct{ SessionID string }
	b.call(&attached, "Target.attachToTarget", fmt.Sprintf(`{"targetId":%q,"flatten":true}`, target.TargetID))
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.call(nil, domain+".enable", `{}`)
	}
	return b
}

// message is one message of the protocol.
type message struct {
	ID        int             `json:"id,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    json.RawMessage `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     json.RawMessage `json:"error,omitempty"`
}

// call sends a command, and reads until its reply, which it writes to result.
func (b *browser) call(result any, method, params string) {
	b.tb.Helper()
	b.calls++
	text, err := json.Marshal(message{ID: b.calls, SessionID: b.session, Method: method, Params: json.RawMessage(params)})
	require.NoError(b.tb, err)
	_, err = b.to.Write(append(text, 0))
	require.NoError(b.tb, err)
	reply := b.read()
	for reply.ID != b.calls {
		reply = b.read()
	}
	require.Empty(b.tb, string(reply.Error), "%s %s", method, params)
	if result != nil {
		require.NoError(b.tb, json.Unmarshal(reply.Result, result))
	}
}

// read reads one message, and records it if it is an event.
func (b *browser) read() (m message) {
	b.tb.Helper()
	require.NoError(b.tb, b.from.SetReadDeadline(time.Now().Add(redistest.WaitLimit)))
	text, err := b.replies.ReadBytes(0)
	require.NoError(b.tb, err)
	require.NoError(b.tb, json.Unmarshal(bytes.TrimSuffix(text, []byte{0}), &m))
	switch m.Method {
	case "Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled":
		if !bytes.Contains(m.Params, []byte(`"source":"network"`)) { // a page with status 404, for example
			b.said = append(b.said, string(m.Params))
		}
	}
	if m.Method != "" {
		b.events = append(b.events, m.Method)
	}
	return m
}

// navigate shows a page, and returns when it is loaded.
func (b *browser) navigate(address string) {
	b.tb.Helper()
	b.events = nil
	b.call(nil, "Page.navigate", fmt.Sprintf(`{"url":%q}`, address))
	b.awaitLoad()
}

// awaitLoad reads until a page is loaded.
func (b *browser) awaitLoad() {
	b.tb.Helper()
	for {
		for i, event := range b.events {
			if event == "Page.loadEventFired" {
				b.events = b.events[i+1:]
				return
			}
		}
		b.read()
	}
}

// eval returns the value of an expression in the page.
func (b *browser) eval(expression string) (value any) {
	b.tb.Helper()
	text, err := json.Marshal(expression)
	require.NoError(b.tb, err)
	var got struct {
		Result           struct{ Value any }
		ExceptionDetails json.RawMessage
	}
	b.call(&got, "Runtime.evaluate", fmt.Sprintf(`{"expression":%s,"returnByValue":true,"awaitPromise":true}`, text))
	require.Empty(b.tb, string(got.ExceptionDetails), expression)
	return got.Result.Value
}

// await waits until an expression in the page is true.
func (b *browser) await(expression string) {
	b.tb.Helper()
	redistest.Await(b.tb, expression, func() bool { return b.eval(expression) == true })
}

// pass lets some milliseconds pass in the page, which reads itself again each second.
func (b *browser) pass(ms int) {
	b.tb.Helper()
	b.eval(fmt.Sprintf("new Promise(done => setTimeout(done, %d))", ms))
}

// show sets how wide the page is, and whether the reader prefers it dark.
func (b *browser) show(width int, scheme string) {
	b.tb.Helper()
	b.call(nil, "Emulation.setDeviceMetricsOverride", fmt.Sprintf(`{"width":%d,"height":900,"deviceScaleFactor":1,"mobile":false}`, width))
	b.call(nil, "Emulation.setEmulatedMedia", fmt.Sprintf(`{"features":[{"name":"prefers-color-scheme","value":%q}]}`, scheme))
}

// press presses a key.
func (b *browser) press(key, text string, code int) {
	b.tb.Helper()
	down := "keyDown"
	if text == "" {
		down = "rawKeyDown"
	}
	b.call(nil, "Input.dispatchKeyEvent", fmt.Sprintf(`{"type":%q,"key":%q,"code":%q,"text":%q,"windowsVirtualKeyCode":%d}`, down, key, key, text, code))
	b.call(nil, "Input.dispatchKeyEvent", fmt.Sprintf(`{"type":"keyUp","key":%q,"code":%q,"windowsVirtualKeyCode":%d}`, key, key, code))
}

func (b *browser) tab()   { b.press("Tab", "", 9) }
func (b *browser) enter() { b.press("Enter", "\r", 13) }

// picture writes a picture of the page to the folder that SIGNALBOX_PICTURES names, if it names one.
func (b *browser) picture(name string) {
	b.tb.Helper()
	folder := os.Getenv("SIGNALBOX_PICTURES")
	if folder == "" {
		return
	}
	var shot struct{ Data string }
	b.call(&shot, "Page.captureScreenshot", `{"format":"png"}`)
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	require.NoError(b.tb, err)
	require.NoError(b.tb, os.WriteFile(filepath.Join(folder, name+".png"), data, 0o600))
}

// mounted serves the pages under a prefix of a service.
func (s served) mounted(wrap func(http.Handler) http.Handler) (address string) {
	mux := http.NewServeMux()
	mux.Handle("/admin/locks/", http.StripPrefix("/admin/locks", s))
	web := httptest.NewServer(wrap(mux))
	s.t.Cleanup(web.Close)
	return web.URL + "/admin/locks/"
}

func unwrapped(h http.Handler) http.Handler { return h }

// hostileNames are names that would break a page which does not expect them.
func hostileNames() []string {
	return []string{
		strange, strings.Repeat("W", 512), strings.Repeat("long/", 102), "שלום/1 (2)", "\u202egnp.exe", "a\u0301\u0327" + strings.Repeat("\u0336\u0341\u0347", 80),
		"👩‍👩‍👧‍👦/1", "\xff\xfe", " blanks ", "javascript:alert(1)", "../x?y=1&z#frag%2f", strings.Repeat("\ufdfd", 170), `"><img src=x onerror=alert(1)>`, "{{.}}",
	}
}

// brokenWords counts the cells of a few characters that have more than one line.
const brokenWords = `[...document.querySelectorAll("td")].filter(td => {
  const range = document.createRange();
  range.selectNodeContents(td);
  return td.textContent.length < 12 && range.getBoundingClientRect().height > 35;
}).length`

// Whatever the names are, no page is wider than the window, draws over itself, or is blocked by its own policy.
func TestPagesFitTheWindow(t *testing.T) {
	t.Parallel()
	b := openBrowser(t)
	s := serve(t, redistest.Start(t), Options{AskToken: true, AuthorizeBreak: func(*http.Request, inspect.Entry) error { return nil }})
	label := signalbox.WithLabel(strings.Repeat("הולך/", 7))
	other := locktest.SteadySession(t, s.server, label)
	for i, name := range hostileNames() {
		s.holds(name)
		if i < 3 {
			s.waits(other, name)
		}
	}
	s.chain(22)
	for i := range 30 {
		s.holds(fmt.Sprint("order/", i))
	}
	s.lists(len(hostileNames()) + 22 + 30)
	address := s.mounted(unwrapped)
	long := url.QueryEscape(strings.Repeat("W", 512))
	key := url.QueryEscape(locktest.Key(strings.Repeat("W", 512)))
	for _, page := range []string{"", "sessions", "name?name=" + long, "name?name=x" + long, "break?kind=reentrant&key=" + key, "?prefix=" + long} {
		for _, width := range []int{320, 400, 820, 1121, 1400} {
			for _, scheme := range []string{"light", "dark"} {
				b.show(width, scheme)
				b.navigate(address + page)
				name, _, _ := strings.Cut(page, "?")
				b.picture(fmt.Sprintf("%s-%d-%s-%d", name, width, scheme, len(page)))
				if needed, _ := b.eval("document.documentElement.scrollWidth").(float64); needed > float64(width) {
					t.Errorf("%s at %d pixels needs %v", page, width, needed)
				}
				require.EqualValues(t, 0, b.eval(brokenWords), page)
			}
		}
	}
	require.Empty(t, b.said)
}

// waits lets another session wait for a name until the test ends.
func (s served) waits(session *signalbox.Session, name string) {
	ctx, cancel := context.WithCancel(context.Background())
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if lease, err := reentrant.New(session, name).Lock(ctx); err == nil {
			_ = lease.Unlock()
		}
	})
	s.t.Cleanup(func() {
		cancel()
		waiting.Wait()
	})
	redistest.Await(s.t, "a waiter", func() bool {
		entries, err := inspect.Name(locktest.Context(s.t), s.session, name)
		return err == nil && len(entries) == 1 && entries[0].WaiterCount > 0
	})
}

// chain lets n names be held by n sessions, each of which waits for the name of the one before.
func (s served) chain(n int) {
	before := s.session
	for i := range n {
		name := fmt.Sprint("chain/", i)
		lease := locktest.Must(s.t, reentrant.New(before, name).Lock)
		s.t.Cleanup(func() { _ = lease.Unlock() })
		before = locktest.SteadySession(s.t, s.server, signalbox.WithLabel(fmt.Sprint("worker-", i)))
		s.waits(before, name)
	}
}

// A page that reads itself again keeps the focus, and where the reader has scrolled to.
func TestAPageThatIsReadAgainKeepsTheReadersPlace(t *testing.T) {
	t.Parallel()
	b := openBrowser(t)
	s := serve(t, redistest.Start(t), Options{})
	var last signalbox.Lease
	for i := range 100 {
		last = s.holds(fmt.Sprintf("order/%03d", i))
	}
	s.lists(100)
	b.show(1400, "light")
	b.navigate(s.mounted(unwrapped))
	b.await(`document.title === "signalbox: 100 names"`)
	for range 5 { // two links, a field, a button, the first name
		b.tab()
	}
	require.Equal(t, "order/000", b.eval("document.activeElement.textContent"))
	b.eval(`document.querySelector("main").dataset.old = "yes"; scrollTo(0, 1000)`)
	s.holds("order/999")
	b.await(`document.title === "signalbox: 101 names" && !document.querySelector("main").dataset.old`)
	require.Equal(t, "order/000", b.eval("document.activeElement.textContent"))
	require.InDelta(t, 1000, b.eval("scrollY"), 1)

	b.eval(`document.querySelectorAll("main a")[99].focus()`) // order/099, which is released now
	require.NoError(t, last.Unlock())
	b.await(`document.title === "signalbox: 100 names"`)
	require.Equal(t, "order/999", b.eval("document.activeElement.textContent"), "the name that has its place now")
	b.enter()
	b.awaitLoad()
	require.Equal(t, "signalbox: order/999", b.eval("document.title"))
	require.Empty(t, b.said)
}

// A page is read again also if its address has a password, and one request at a time; a login takes its place, and a proxy's page does not.
func TestAPageIsReadAgainUnderALogin(t *testing.T) {
	t.Parallel()
	b := openBrowser(t)
	s := serve(t, redistest.Start(t), Options{})
	s.holds("a")
	s.lists(1)
	var state, slow atomic.Int64
	proceed := make(chan struct{})
	address := s.mounted(func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			name, _, _ := r.BasicAuth()
			switch {
			case r.URL.Path == "/login":
				_, _ = w.Write([]byte("<title>login</title><main>Who are you?</main>"))
			case name != "operator":
				w.Header().Set("WWW-Authenticate", "Basic")
				w.WriteHeader(http.StatusUnauthorized)
			case state.Load() == 1:
				w.WriteHeader(http.StatusBadGateway)
				_, _ = w.Write([]byte("<main>the proxy's</main>"))
			case state.Load() == 2:
				slow.Add(1)
				<-proceed
				h.ServeHTTP(w, r)
			case state.Load() == 3:
				http.Redirect(w, r, "/login", http.StatusFound)
			default:
				h.ServeHTTP(w, r)
			}
		})
	})
	b.navigate(strings.Replace(address, "://", "://operator:secret@", 1))
	s.holds("b")
	b.await(`document.querySelectorAll("tbody tr").length === 2`)
	state.Store(1)
	b.pass(2500)
	require.EqualValues(t, 2, b.eval(`document.querySelectorAll("tbody tr").length`))
	state.Store(2)
	s.holds("c")
	redistest.Await(t, "a request that lasts", func() bool { return slow.Load() > 0 })
	b.pass(3500)
	require.EqualValues(t, 1, slow.Load())
	state.Store(0)
	close(proceed)
	b.await(`document.querySelectorAll("tbody tr").length === 3`)
	state.Store(3)
	b.await(`document.title === "login"`)
}

// Everything can be done by the keyboard alone, and without JavaScript.
func TestANameIsBrokenByTheKeyboardWithoutJavaScript(t *testing.T) {
	t.Parallel()
	b := openBrowser(t)
	s := serve(t, redistest.Start(t), Options{AskToken: true, AuthorizeBreak: func(r *http.Request, _ inspect.Entry) error {
		if r.PostFormValue("token") != "t" {
			return errNoHandler
		}
		return nil
	}})
	lease := s.holds("order/1")
	s.lists(1)
	b.call(nil, "Emulation.setScriptExecutionDisabled", `{"value":true}`)
	b.navigate(s.mounted(unwrapped))
	for range 6 { // two links, a field, a button, the name, Break
		b.tab()
	}
	b.enter()
	b.awaitLoad()
	for range 3 { // two links, the token
		b.tab()
	}
	b.press("t", "t", 'T')
	b.tab()
	b.enter()
	b.awaitLoad()
	redistest.Receive(t, "the loss", lease.Done())
	b.call(nil, "Emulation.setScriptExecutionDisabled", `{"value":false}`)
	require.Contains(t, b.eval(`document.querySelector("[role=status]").textContent`), "It was broken")
	require.Empty(t, b.said)
}
