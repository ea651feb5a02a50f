module github.com/signalbox-go/signalbox/examples

go 1.25.0

require (
	github.com/redis/go-redis/v9 v9.22.0
	github.com/redis/rueidis v1.0.79
	github.com/signalbox-go/signalbox v0.1.0
	github.com/signalbox-go/signalbox/contrib/goredis v0.1.0
	github.com/signalbox-go/signalbox/contrib/valkeygo v0.1.0
	github.com/signalbox-go/signalbox/signalboxtest v0.1.0
	github.com/stretchr/testify v1.12.1
	github.com/valkey-io/valkey-go v1.0.79
	golang.org/x/sync v0.21.0
	modernc.org/sqlite v1.52.0
)

require (
	github.com/alicebob/miniredis/v2 v2.40.0 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/mattn/go-isatty v0.0.20 // indirect
	github.com/ncruces/go-strftime v1.0.0 // indirect
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.uber.org/atomic v1.11.0 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.47.0 // indirect
	modernc.org/libc v1.72.3 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.11.0 // indirect
)

replace (
	github.com/signalbox-go/signalbox => ../
	github.com/signalbox-go/signalbox/contrib/goredis => ../contrib/goredis
	github.com/signalbox-go/signalbox/contrib/valkeygo => ../contrib/valkeygo
	github.com/signalbox-go/signalbox/signalboxtest => ../signalboxtest
)
